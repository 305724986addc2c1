// The storage of a key or value in its row of the cache: fp16, or int8 with scales.
#pragma once

#include <cstring>

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
  static EDGEDEC_INLINE V load(const uint16_t* row, size_t, size_t c) {
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
  static EDGEDEC_INLINE void widen(const uint16_t* row, size_t, size_t c0, size_t c1, float* wide) {
    for (size_t c = c0; c < c1; c += kLanes) V::load_f16(row + c).store(wide + (c - c0));
  }
};

// dim int8 numbers, then an fp16 scale for every 32 of them. An element is their product, which is exact in fp32.
struct Int8s {
  static constexpr int kAhead = 4096, kPrefetch = 3;
  static constexpr size_t kWorthWidening = 12, kKeysAhead = 4096, kValuesAhead = 4096;
  static constexpr size_t kGroup = 32;
  static constexpr uint16_t kNoScale = 0x7e00;  // NaN, for a group that int8 cannot hold

  static EDGEDEC_INLINE size_t row(size_t dim) { return dim / 2 + (dim + kGroup - 1) / kGroup; }
  static EDGEDEC_INLINE const char* at(const uint16_t* row, size_t c) { return reinterpret_cast<const char*>(row) + c; }

  template <class V>
  static EDGEDEC_INLINE V load(const uint16_t* row, size_t dim, size_t c) {
    return V::mul(V::load_i8(at(row, c)), V::broadcast_f16(row[dim / 2 + c / kGroup]));
  }
  template <class V>
  static EDGEDEC_INLINE void widen(const uint16_t* row, size_t dim, size_t c0, size_t c1, float* wide) {
    for (size_t c = c0, end; c < c1; c = end) {
      end = (c / kGroup + 1) * kGroup < c1 ? (c / kGroup + 1) * kGroup : c1;
      const V scale = V::broadcast_f16(row[dim / 2 + c / kGroup]);
      for (; c < end; c += kLanes) V::mul(V::load_i8(at(row, c)), scale).store(wide + (c - c0));
    }
  }
  template <class V>
  static EDGEDEC_INLINE void store(const float* x, uint16_t* row, size_t dim) {
    char* bytes = reinterpret_cast<char*>(row);
    for (size_t c = 0; c < dim; c += kGroup)
      row[dim / 2 + c / kGroup] = store_group<V>(x + c, bytes + c, dim - c < kGroup ? dim - c : kGroup);
  }

 private:
  // The least fp16 number a with 127 a >= amax: the one nearest to amax / 127, or the next. Products with 127 are
  // exact.
  static EDGEDEC_INLINE uint16_t scale_of(float amax) {
    uint16_t scale = float_to_half(amax / 127.0f);
    if (half_to_float(scale) * 127.0f < amax) ++scale;
    return scale < 0x7c00 ? scale : kNoScale;
  }
  // Writes n int8 numbers, 16 or 32, and returns their scale.
  template <class V>
  static EDGEDEC_INLINE uint16_t store_group(const float* x, char* bytes, size_t n) {
    V top = V::broadcast(0.0f), strange = top;
    for (size_t c = 0; c < n; c += kLanes) {
      const V part = V::load(x + c);
      top = V::max(top, V::abs(part));
      strange = V::fma(part, V::broadcast(0.0f), strange);  // NaN where an element is infinite or NaN
    }
    const uint16_t scale = V::reduce_add(strange) == 0.0f ? scale_of(V::reduce_max(top)) : kNoScale;
    std::memset(bytes, 0, n);
    if (scale == 0 || scale == kNoScale) return scale;
    const V divisor = V::broadcast_f16(scale);
    for (size_t c = 0; c < n; c += kLanes) {
      int32_t whole[kLanes];
      V::to_ints(V::div(V::load(x + c), divisor)).store(whole);
      for (int i = 0; i < kLanes; ++i) bytes[c + static_cast<size_t>(i)] = static_cast<char>(whole[i]);
    }
    return scale;
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
  static EDGEDEC_INLINE V load(const uint16_t* row, size_t, size_t c) {
    return V::load(reinterpret_cast<const float*>(row) + c);
  }
};

}  // namespace
}  // namespace edgedec::tree_attention
