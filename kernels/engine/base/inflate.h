// Unpacks what zlib packed (RFC 1950 and 1951).
#pragma once

#include <cstdint>

#include "core/base/span.h"

namespace edgedec::engine {

// Fills `out`. False unless `packed` holds exactly these bytes, and nothing else.
bool unpack_zlib(Span<const uint8_t> packed, Span<uint8_t> out);

}  // namespace edgedec::engine
