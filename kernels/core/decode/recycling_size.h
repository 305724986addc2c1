// Saved tables of recycling in fewer places: edgedec/draft/recycling.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/span.h"

namespace edgedec::engine {

// Returns the content that a table of `saved_size` saved bytes would have: of answers in one place the surest stay. Empty for other
// bytes, and where nothing shrinks.
std::vector<uint8_t> shrunk_recycling(Span<const uint8_t> data, size_t saved_size);

}  // namespace edgedec::engine
