// The plain C face of the library, for Python's ctypes.
#pragma once

#define EDGEDEC_EXPORT extern "C" __attribute__((visibility("default")))
