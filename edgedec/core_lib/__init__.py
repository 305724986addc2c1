"""The core in the kernel library (kernels/core), called through ctypes."""
