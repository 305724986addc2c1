// Numbers of bytes for people: edgedec/core/units.py.
#pragma once

#include <cstdint>
#include <string>

namespace edgedec::engine {

// Bytes in decimal units: "98.4 MB".
std::string size_text(int64_t count);
// A bound in whole MB that is at least `count` bytes: "300MB".
std::string size_up(int64_t count);

}  // namespace edgedec::engine
