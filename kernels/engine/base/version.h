#pragma once

namespace edgedec::engine {

constexpr const char* kVersionText = EDGEDEC_VERSION;  // CMake reads it in edgedec/core/version.py

}  // namespace edgedec::engine
