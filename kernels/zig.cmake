# Compiles the kernels for a wheel, with Zig's Clang (on PyPI: ziglang): it has the symbols of glibc 2.28 and a static
# C++ library for every architecture, so one machine builds the wheels of all. `.ci/wheels.py` gives both variables:
#   EDGEDEC_ARCH    x86_64 or aarch64
#   EDGEDEC_PYTHON  a Python interpreter that has ziglang
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EDGEDEC_ARCH EDGEDEC_PYTHON)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${EDGEDEC_ARCH})
set(CMAKE_CXX_COMPILER ${EDGEDEC_PYTHON} -m ziglang c++ -target ${EDGEDEC_ARCH}-linux-gnu.2.28)
# Stripped by the linker, as the strip of this machine knows one architecture.
set(CMAKE_SHARED_LINKER_FLAGS_INIT -Wl,-s)
set(CMAKE_CXX_FLAGS_INIT -g0)
# Zig names architectures of Arm in its own way.
set(EDGEDEC_DOTPROD -mcpu=generic+v8_2a+dotprod)
set(EDGEDEC_I8MM -mcpu=generic+v8_2a+dotprod+i8mm)
