# Cross-compiles the kernels for 64-bit Arm Linux with Debian's g++-aarch64-linux-gnu, from the root of the checkout:
#   cmake -S . -B build/aarch64 -DCMAKE_BUILD_TYPE=Release --toolchain kernels/aarch64.cmake && cmake --build build/aarch64
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
