# Compiles the kernels with Zig's Clang (on PyPI: ziglang) for any system, on any: it brings the C libraries, for Linux the
# symbols of glibc 2.28, and a static C++ library. One machine so builds the wheels of all; `.ci/wheels.py` does. By hand:
#   cmake -S . -B build/windows -G Ninja -DCMAKE_BUILD_TYPE=Release --toolchain kernels/zig.cmake \
#         -DEDGEDEC_PYTHON=$(which python3) -DEDGEDEC_SYSTEM=Windows -DEDGEDEC_ARCH=x86_64 && cmake --build build/windows
# Variables:
#   EDGEDEC_PYTHON  a Python interpreter that has ziglang
#   EDGEDEC_ARCH    x86_64 or aarch64
#   EDGEDEC_SYSTEM  Linux, Windows or Darwin, which is macOS 11; Linux without it
if(NOT EDGEDEC_SYSTEM)
  set(EDGEDEC_SYSTEM Linux)
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EDGEDEC_ARCH EDGEDEC_PYTHON EDGEDEC_SYSTEM)
set(CMAKE_SYSTEM_NAME ${EDGEDEC_SYSTEM})
set(CMAKE_SYSTEM_PROCESSOR ${EDGEDEC_ARCH})
set(EDGEDEC_TARGET_Linux -linux-gnu.2.28)
set(EDGEDEC_TARGET_Windows -windows-gnu)
set(EDGEDEC_TARGET_Darwin -macos.11.0)
set(CMAKE_CXX_COMPILER ${EDGEDEC_PYTHON} -m ziglang c++ -target ${EDGEDEC_ARCH}${EDGEDEC_TARGET_${EDGEDEC_SYSTEM}})
# Stripped by the linker, as the strip of this machine knows one system.
set(CMAKE_SHARED_LINKER_FLAGS_INIT -Wl,-s)
set(CMAKE_CXX_FLAGS_INIT -g0)
# Zig names architectures of Arm in its own way.
set(EDGEDEC_DOTPROD -mcpu=generic+v8_2a+dotprod)
set(EDGEDEC_I8MM -mcpu=generic+v8_2a+dotprod+i8mm)
# CMake wants Apple's tool for names of libraries, which nothing here calls: they are whole when they are linked.
if(EDGEDEC_SYSTEM STREQUAL Darwin)
  set(CMAKE_INSTALL_NAME_TOOL ${CMAKE_COMMAND})
  set(CMAKE_OSX_SYSROOT "")
  set(CMAKE_BUILD_WITH_INSTALL_NAME_DIR ON)
  set(CMAKE_INSTALL_NAME_DIR "@loader_path")
endif()
