// Prefetches that are spread over the tiles of a block: a burst of them waits for the few lines that a core can await.
#pragma once

#include <cstddef>

#include "simd/inline.h"

namespace edgedec::tree_attention {
namespace {

class Ahead {
 public:
  Ahead() = default;
  // The first tile begins at `first`, each other one `per_tile` bytes later; each use in a tile is `per_use` bytes on.
  Ahead(const char* first, size_t per_tile, size_t per_use) : first_(first), per_tile_(per_tile), per_use_(per_use) {}

  // Begins a tile: where its first use prefetches.
  EDGEDEC_INLINE const char* tile() {
    const char* first = first_;
    first_ += per_tile_;
    return first;
  }
  // Into the second-level cache.
  EDGEDEC_INLINE void use(const char*& next) const {
    __builtin_prefetch(next, 0, 2);
    next += per_use_;
  }

 private:
  const char* first_ = nullptr;
  size_t per_tile_ = 0, per_use_ = 0;
};

}  // namespace
}  // namespace edgedec::tree_attention
