// Replies that go round in circles: edgedec/session/loops.py, which says what counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/span.h"

namespace edgedec::engine {

constexpr size_t kLoopTail = 256;  // tokens at the end of a reply that are looked at

// Whether a reply goes round in circles. `tail`: the text of its last 256 tokens.
bool loops(Span<const int32_t> tokens, std::string_view tail);

}  // namespace edgedec::engine
