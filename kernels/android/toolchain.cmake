# Compiles the engine for Android on 64-bit Arm with Debian's g++-aarch64-linux-gnu, without the NDK:
#   cmake -S . -B build/android -DCMAKE_BUILD_TYPE=Release --toolchain kernels/android/toolchain.cmake
#   cmake --build build/android
# makes build/android/kernels/libedgedec.so. CMake's own Android would ask for the NDK, so this one is called Linux.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(EDGEDEC_ANDROID ON)
