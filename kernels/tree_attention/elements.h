// The storage of a key or value in its row of a cache in fp16; int8_rows.h has that in int8.
#pragma once

#include "simd/vec16.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

// dim fp16 numbers.
struct Halves {
  // How many bytes ahead keys are prefetched, and into which cache: 3 the first, 2 the second, 0 none.
  static constexpr int kAhead = 6144, kPrefetch = 2;
  static constexpr size_t kWorthWidening = 0;  // how many queries repay a buffer of widened rows; 0: none do

  static EDGEDEC_INLINE size_t row(size_t dim) { return dim; }
  static EDGEDEC_INLINE const char* at(const uint16_t* row, size_t c) { return reinterpret_cast<const char*>(row + c); }

  template <class V>
  static EDGEDEC_INLINE V load(const uint16_t* row, size_t c) {
    return V::load_f16(row + c);
  }
  template <class V>
  static EDGEDEC_INLINE void store(const float* x, uint16_t* row, size_t dim) {
    for (size_t c = 0; c < dim; c += kLanes) V::load(x + c).store_f16(row + c);
  }
};

// The same on a CPU that converts them on the ports that multiply. Measured on a Xeon with AMX, 12,000 keys of 128 beyond the
// caches: scores of 24 queries take 0.81 of the time, sums of values 0.72; of 12 queries 1.0 and 1.2.
struct SlowHalves : Halves {
  static constexpr size_t kWorthWidening = 18;
  static constexpr size_t kKeysAhead = 8192, kValuesAhead = 16384;  // bytes: what is prefetched while a block is used

  template <class V>
  static EDGEDEC_INLINE void widen(const uint16_t* row, size_t c0, size_t c1, float* wide) {
    for (size_t c = c0; c < c1; c += kLanes) V::load_f16(row + c).store(wide + (c - c0));
  }
};

// dim floats: a few rows that were widened, near at hand.
struct Floats {
  static constexpr int kAhead = 0, kPrefetch = 0;

  static const uint16_t* rows(const float* wide) { return reinterpret_cast<const uint16_t*>(wide); }
  static EDGEDEC_INLINE size_t row(size_t dim) { return 2 * dim; }
  static EDGEDEC_INLINE const char* at(const uint16_t* row, size_t c) {
    return reinterpret_cast<const char*>(row + 2 * c);
  }
  template <class V>
  static EDGEDEC_INLINE V load(const uint16_t* row, size_t c) {
    return V::load(reinterpret_cast<const float*>(row) + c);
  }
};

}  // namespace
}  // namespace edgedec::tree_attention
