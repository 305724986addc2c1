// Saved tables of recycling in fewer places: edgedec/draft/recycling.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/span.h"

namespace edgedec::engine {

// What a table that saves `saved_size` bytes would have saved: of answers in one place the surest stay. Empty for other
// bytes, and where nothing shrinks.
std::vector<uint8_t> shrunk_recycling(Span<const uint8_t> data, size_t saved_size);

}  // namespace edgedec::engine
