// How the elements of a key or value are kept in its row of the cache.
#pragma once

#include <cstring>

#include "common/vec16.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

// dim fp16 numbers.
struct Halves {
  static constexpr bool kScaled = false;

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

// dim int8 numbers, then their fp16 scale.
struct Int8s {
  static constexpr bool kScaled = true;
  static constexpr uint16_t kNoScale = 0x7e00;  // NaN, for a row that int8 cannot hold

  static EDGEDEC_INLINE size_t row(size_t dim) { return dim / 2 + 1; }
  static EDGEDEC_INLINE const char* at(const uint16_t* row, size_t c) { return reinterpret_cast<const char*>(row) + c; }

  template <class V>
  static EDGEDEC_INLINE V load(const uint16_t* row, size_t c) {
    return V::load_i8(at(row, c));
  }
  // The scales of n consecutive rows; the room is filled up to a multiple of sixteen.
  template <class V>
  static EDGEDEC_INLINE void scales(const uint16_t* rows, size_t dim, size_t n, float* out) {
    for (size_t j = 0; j < n; j += kLanes) {
      uint16_t scale[kLanes] = {};
      for (size_t i = j; i < n && i < j + kLanes; ++i) scale[i - j] = rows[i * row(dim) + dim / 2];
      V::load_f16(scale).store(out + j);
    }
  }
  // The least fp16 number of which 127 reach amax, from the nearest one to amax / 127: products with 127 are exact.
  static EDGEDEC_INLINE uint16_t scale_of(float amax) {
    uint16_t scale = float_to_half(amax / 127.0f);
    if (half_to_float(scale) * 127.0f < amax) ++scale;
    return scale < 0x7c00 ? scale : kNoScale;
  }
  template <class V>
  static EDGEDEC_INLINE void store(const float* x, uint16_t* row, size_t dim) {
    V top = V::broadcast(0.0f), strange = top;
    for (size_t c = 0; c < dim; c += kLanes) {
      const V part = V::load(x + c);
      top = V::max(top, V::abs(part));
      strange = V::fma(part, V::broadcast(0.0f), strange);  // NaN where an element is infinite or NaN
    }
    const uint16_t scale = V::reduce_add(strange) == 0.0f ? scale_of(V::reduce_max(top)) : kNoScale;
    char* bytes = reinterpret_cast<char*>(row);
    std::memcpy(bytes + dim, &scale, sizeof scale);
    if (scale == 0 || scale == kNoScale) {
      std::memset(bytes, 0, dim);
      return;
    }
    const V divisor = V::broadcast(half_to_float(scale));
    for (size_t c = 0; c < dim; c += kLanes) {
      int32_t whole[kLanes];
      V::to_ints(V::div(V::load(x + c), divisor)).store(whole);
      for (int i = 0; i < kLanes; ++i) bytes[c + static_cast<size_t>(i)] = static_cast<char>(whole[i]);
    }
  }
};

}  // namespace
}  // namespace edgedec::tree_attention
