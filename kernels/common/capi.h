// Exports of the C ABI, which Python calls through ctypes.
#pragma once

#if defined(_WIN32)
#define EDGEDEC_EXPORT extern "C" __declspec(dllexport)
#else
#define EDGEDEC_EXPORT extern "C" __attribute__((visibility("default")))
#endif
