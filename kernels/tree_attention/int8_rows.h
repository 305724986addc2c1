// Keys, values and queries of a cache in int8: how they are mixed, rounded and stored. tree_attention.h defines it.
#pragma once

#include <cstring>

#include "simd/vec16.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kMixed = 32;  // elements that are mixed with each other; a head may end with sixteen
constexpr uint16_t kNoScale = 0x7e00;  // NaN, for a group that int8 cannot hold

using QueryGroup = byte_products::Group;  // in the place of its floats

EDGEDEC_INLINE size_t groups_of(size_t dim, size_t group) { return (dim + group - 1) / group; }

// Plain operations per element: the compiler may reorder them without changing bits.
template <size_t N>
EDGEDEC_INLINE void mix_group(float* x, float factor) {
  for (size_t half = N / 2; half; half /= 2)
    for (size_t i = 0; i < N; i += 2 * half)
      for (size_t j = i; j < i + half; ++j) {
        const float a = x[j], b = x[j + half];
        x[j] = a + b, x[j + half] = a - b;
      }
  for (size_t i = 0; i < N; ++i) x[i] *= factor;
}

// Mixes elements [0, dim) in place. Mixed twice, once `as_query`, they are what they were before rounding.
EDGEDEC_INLINE void mix(float* x, size_t dim, bool as_query) {
  size_t c = 0;
  for (; c + kMixed <= dim; c += kMixed) mix_group<kMixed>(x + c, as_query ? 0.125f : 0.25f);
  if (c < dim) mix_group<kMixed / 2>(x + c, 0.25f);
}

// The greatest size of n elements, a multiple of sixteen; NaN where one is infinite or NaN.
template <class V>
EDGEDEC_INLINE float greatest(const float* x, size_t n) {
  V top = V::broadcast(0.0f), strange = top;
  for (size_t c = 0; c < n; c += kLanes) {
    const V part = V::load(x + c);
    top = V::max(top, V::abs(part));
    strange = V::fma(part, V::broadcast(0.0f), strange);
  }
  return V::reduce_add(strange) == 0.0f ? V::reduce_max(top) : __builtin_nanf("");
}

// Rounds n elements times 1 / scale to bytes.
template <class V>
EDGEDEC_INLINE void round_all(const float* x, float scale, size_t n, int8_t* bytes) {
  for (size_t c = 0; c < n; c += kLanes) V::to_ints(V::div(V::load(x + c), V::broadcast(scale))).store_bytes(bytes + c);
}

// Rounds a mixed query, in place.
template <class V>
EDGEDEC_INLINE void store_query(float* x, size_t dim) {
  for (size_t g = 0; g < groups_of(dim, kMixed); ++g) {
    const size_t n = dim - g * kMixed < kMixed ? dim - g * kMixed : kMixed;
    QueryGroup group{};
    group.scale = greatest<V>(x + g * kMixed, n) / 127.0f;
    // Where the scale is subnormal, so are the elements that it would have.
    if (group.scale < 1.17549435e-38f)
      group.scale = 0.0f;
    else if (group.scale == group.scale)
      round_all<V>(x + g * kMixed, group.scale, n, group.bytes);
    for (size_t c = 0; c < n; ++c) group.sum += group.bytes[c];
    std::memcpy(reinterpret_cast<char*>(x) + g * sizeof group, &group, sizeof group);
  }
}

// Where group g of a stored query lies.
EDGEDEC_INLINE const QueryGroup& query_group(const float* query, size_t g) {
  return reinterpret_cast<const QueryGroup*>(query)[g];
}

// dim int8 numbers, then fp16 scales of their groups, of kKeyGroup or kValueGroup; the row has room for one in 32.
struct Int8s {
  static constexpr size_t kKeyGroup = 32, kValueGroup = 64;

  static EDGEDEC_INLINE size_t row(size_t dim) { return dim / 2 + groups_of(dim, kKeyGroup); }

  template <class V>
  static EDGEDEC_INLINE void store(const float* x, uint16_t* row, size_t dim, size_t group) {
    auto* bytes = reinterpret_cast<int8_t*>(row);
    uint16_t* scales = row + dim / 2;
    std::memset(scales, 0, groups_of(dim, kKeyGroup) * sizeof *scales);
    for (size_t c = 0; c < dim; c += group) scales[c / group] = store_group<V>(x + c, bytes + c, dim - c < group ? dim - c : group);
  }

 private:
  // The least fp16 number a with 127 a >= amax: the one nearest to amax / 127, or the next. Products with 127 are
  // exact. Below 2^-26 all bytes are 0 with any of them; a device that has no subnormal floats could not tell which.
  static EDGEDEC_INLINE uint16_t scale_of(float amax) {
    if (amax < 1.4901161e-8f) return 0;
    uint16_t scale = float_to_half(amax / 127.0f);
    if (half_to_float(scale) * 127.0f < amax) ++scale;
    return scale < 0x7c00 ? scale : kNoScale;
  }
  // Writes n int8 numbers, a multiple of sixteen, and returns their scale.
  template <class V>
  static EDGEDEC_INLINE uint16_t store_group(const float* x, int8_t* bytes, size_t n) {
    const float most = greatest<V>(x, n);
    const uint16_t scale = most == most ? scale_of(most) : kNoScale;
    if (scale == 0 || scale == kNoScale)
      std::memset(bytes, 0, n);
    else
      round_all<V>(x, half_to_float(scale), n, bytes);
    return scale;
  }
};

}  // namespace
}  // namespace edgedec::tree_attention
