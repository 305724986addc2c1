# Compiles edgedec.wasm with Zig's Clang (on PyPI: ziglang); `python -P -m edgedec.export.web.build` does all of it.
#   EDGEDEC_PYTHON  a Python interpreter that has ziglang
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EDGEDEC_PYTHON)
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER ${EDGEDEC_PYTHON} -m ziglang c++ -target wasm32-wasi)
set(CMAKE_CXX_FLAGS_INIT "-g0 -msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_EXECUTABLE_SUFFIX .wasm)
set(EDGEDEC_WEB ON)
