// Whole numbers in the file of a cache: eight bytes, the lowest first.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

constexpr int64_t kWholeBytes = 8;

inline Status write_whole(CacheSink& sink, int64_t number) {
  uint8_t said[kWholeBytes];
  for (int at = 0; at < kWholeBytes; ++at) said[at] = static_cast<uint8_t>(number >> (8 * at));
  return sink.write(said, sizeof said);
}

inline Status read_whole(CacheSource& source, uint64_t* number) {
  uint8_t said[kWholeBytes];
  EDGEDEC_TRY(source.read(said, sizeof said));
  *number = 0;
  for (int at = 0; at < kWholeBytes; ++at) *number |= static_cast<uint64_t>(said[at]) << (8 * at);
  return {};
}

}  // namespace edgedec::engine
