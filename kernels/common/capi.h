// Exports of the C ABI, which Python calls through ctypes.
#pragma once

#define EDGEDEC_EXPORT extern "C" __attribute__((visibility("default")))
