#pragma once

namespace edgedec::engine {

constexpr const char* kVersionText = "0.1.0";  // as in edgedec/core/version.py

}  // namespace edgedec::engine
