// Sixteen float lanes: the unit in which every float kernel computes, on all instruction sets.
//
// Vec16Scalar (here), Vec16Avx2, Vec16Avx512 and Vec16Neon offer the same operations and agree in every bit:
//   add sub mul div sqrt round   IEEE, round half to even
//   fma(a, b, c)                 a * b + c rounded once
//   min, max                     (a < b ? a : b) and (a > b ? a : b): the second operand when one is NaN
//   load_f16, store_f16          IEEE binary16, round half to even, subnormals kept, NaN made quiet
//   load_bf16                    the upper halves of fp32 numbers
//   reduce_add                   folds 16 -> 8 -> 4 -> 2 -> 1, lane i with lane i + half
//   fold(v), unfold(f)           reduce_add of sixteen vectors in two steps: kFold of them, by fold_index(), make a
//                                Fold, and all Folds make a vector whose lane j = reduce_add(v[j])
//   Ints                         sixteen int32 lanes, two's complement with wrap-around
// A NaN is a NaN in all of them, but its payload may differ.
//
// Everything lives in an unnamed namespace and is always inlined, see simd/inline.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simd/half.h"
#include "simd/inline.h"

namespace edgedec {
namespace {

constexpr int kLanes = 16;

// Which of sixteen vectors is the i-th of Fold t.
constexpr int fold_index(int t, int i) { return t + 4 * i; }

// fp32 to fp16 in integer code: round half to even, overflow to infinity.
EDGEDEC_INLINE uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // 65520 and above round to infinity
  if (magnitude >= 0x38800000u) {                      // 2^-14: the smallest normal
    const uint32_t odd = magnitude >> 13 & 1;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfff + odd) >> 13));
  }
  if (magnitude < 0x33000000u) return sign;  // below 2^-25: zero
  const uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u, shift = 126 - (magnitude >> 23);
  const uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
  return static_cast<uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
}

EDGEDEC_INLINE float quiet_half_to_float(uint16_t h) {
  const bool nan = (h & 0x7fff) > 0x7c00;
  return half_to_float(nan ? static_cast<uint16_t>(h | 0x200) : h);
}

struct Vec16Scalar {
  static constexpr int kAccumulators = 4;  // Vec16 values that a register tile should keep
  static constexpr int kTile = 4;          // the same for products of queries with keys, and of weights with values
  static constexpr int kFold = 1;          // 1 or 4
  using Fold = float;
  float lane[kLanes];

  struct Ints {
    uint32_t lane[kLanes];  // unsigned, so that wrap-around is defined

    static EDGEDEC_INLINE Ints broadcast(int32_t x) {
      return map([=](int) { return static_cast<uint32_t>(x); });
    }
    static EDGEDEC_INLINE Ints add(const Ints& a, const Ints& b) {
      return map([&](int i) { return a.lane[i] + b.lane[i]; });
    }
    static EDGEDEC_INLINE Ints sub(const Ints& a, const Ints& b) {
      return map([&](int i) { return a.lane[i] - b.lane[i]; });
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_left(const Ints& a) {
      return map([&](int i) { return a.lane[i] << N; });
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_right(const Ints& a) {  // arithmetic
      return map([&](int i) { return static_cast<uint32_t>(static_cast<int32_t>(a.lane[i]) >> N); });
    }
    static EDGEDEC_INLINE Ints load(const int32_t* p) {
      Ints r;
      std::memcpy(r.lane, p, sizeof r.lane);
      return r;
    }
    EDGEDEC_INLINE void store(int32_t* p) const { std::memcpy(p, lane, sizeof lane); }
    EDGEDEC_INLINE void store_bytes(void* p) const {  // lanes in -128 .. 127
      for (int i = 0; i < kLanes; ++i) static_cast<int8_t*>(p)[i] = static_cast<int8_t>(lane[i]);
    }

   private:
    template <class F>
    static EDGEDEC_INLINE Ints map(F f) {
      Ints r;
      for (int i = 0; i < kLanes; ++i) r.lane[i] = f(i);
      return r;
    }
  };

  template <class F>
  static EDGEDEC_INLINE Vec16Scalar map(F f) {
    Vec16Scalar r;
    for (int i = 0; i < kLanes; ++i) r.lane[i] = f(i);
    return r;
  }

  static EDGEDEC_INLINE Vec16Scalar load(const float* p) {
    return map([=](int i) { return p[i]; });
  }
  // The first n lanes, 0 <= n <= 16; the others are zero and their memory is not touched.
  static EDGEDEC_INLINE Vec16Scalar load_partial(const float* p, size_t n) {
    return map([=](int i) { return static_cast<size_t>(i) < n ? p[i] : 0.0f; });
  }
  static EDGEDEC_INLINE Vec16Scalar load_f16(const uint16_t* p) {
    return map([=](int i) { return quiet_half_to_float(p[i]); });
  }
  static EDGEDEC_INLINE Vec16Scalar load_bf16(const uint16_t* p) {
    return map([=](int i) { return bfloat_to_float(p[i]); });
  }
  static EDGEDEC_INLINE Vec16Scalar broadcast(float x) {
    return map([=](int) { return x; });
  }
  EDGEDEC_INLINE void store(float* p) const { std::memcpy(p, lane, sizeof lane); }
  EDGEDEC_INLINE void store_partial(float* p, size_t n) const {
    for (size_t i = 0; i < n; ++i) p[i] = lane[i];
  }
  EDGEDEC_INLINE void store_f16(uint16_t* p) const {
    for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(lane[i]);
  }

  using V = const Vec16Scalar&;
  static EDGEDEC_INLINE Vec16Scalar add(V a, V b) {
    return map([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static EDGEDEC_INLINE Vec16Scalar sub(V a, V b) {
    return map([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static EDGEDEC_INLINE Vec16Scalar mul(V a, V b) {
    return map([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static EDGEDEC_INLINE Vec16Scalar div(V a, V b) {
    return map([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  static EDGEDEC_INLINE Vec16Scalar fma(V a, V b, V c) {
    return map([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static EDGEDEC_INLINE Vec16Scalar max(V a, V b) {
    return map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static EDGEDEC_INLINE Vec16Scalar min(V a, V b) {
    return map([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static EDGEDEC_INLINE Vec16Scalar sqrt(V a) {
    return map([&](int i) { return std::sqrt(a.lane[i]); });
  }
  static EDGEDEC_INLINE Vec16Scalar abs(V a) {
    return map([&](int i) { return std::fabs(a.lane[i]); });
  }
  static EDGEDEC_INLINE Vec16Scalar round(V a) {
    return map([&](int i) { return std::nearbyint(a.lane[i]); });
  }
  // Bit i is set where lane i of a is greater than that of b.
  static EDGEDEC_INLINE uint32_t greater_bits(V a, V b) {
    uint32_t bits = 0;
    for (int i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(a.lane[i] > b.lane[i]) << i;
    return bits;
  }

  static EDGEDEC_INLINE Ints bits(V a) {
    Ints r;
    std::memcpy(r.lane, a.lane, sizeof r.lane);
    return r;
  }
  static EDGEDEC_INLINE Vec16Scalar from_bits(const Ints& a) {
    Vec16Scalar r;
    std::memcpy(r.lane, a.lane, sizeof r.lane);
    return r;
  }
  static EDGEDEC_INLINE Ints to_ints(V a) {  // round half to even; |lane| < 2^31
    Ints r;
    for (int i = 0; i < kLanes; ++i) r.lane[i] = static_cast<uint32_t>(static_cast<int32_t>(std::nearbyint(a.lane[i])));
    return r;
  }
  static EDGEDEC_INLINE Vec16Scalar from_ints(const Ints& a) {
    return map([&](int i) { return static_cast<float>(static_cast<int32_t>(a.lane[i])); });
  }

  static EDGEDEC_INLINE float reduce_add(V a) {
    Vec16Scalar r = a;
    for (int half = kLanes / 2; half; half /= 2)
      for (int i = 0; i < half; ++i) r.lane[i] = r.lane[i] + r.lane[i + half];
    return r.lane[0];
  }
  static EDGEDEC_INLINE Fold fold(const Vec16Scalar* v) { return reduce_add(*v); }
  static EDGEDEC_INLINE Vec16Scalar unfold(const Fold* f) { return load(f); }
  static EDGEDEC_INLINE float reduce_max(V a) {
    float top = a.lane[0];
    for (int i = 1; i < kLanes; ++i) top = a.lane[i] > top ? a.lane[i] : top;
    return top;
  }
};

// x * 2^n, rounded once, for 0.5 < |x| < 2 and -200 < n < 200; n also as integers.
template <class V>
EDGEDEC_INLINE V times_power(V x, V, typename V::Ints n) {
  using I = typename V::Ints;
  const I half = I::template shift_right<1>(n), bias = I::broadcast(127);
  const V scale0 = V::from_bits(I::template shift_left<23>(I::add(half, bias)));
  const V scale1 = V::from_bits(I::template shift_left<23>(I::add(I::sub(n, half), bias)));
  return V::mul(V::mul(x, scale0), scale1);
}

// The registers of a vector, for tiles of scores that use one after the other; the queries of such a tile, and its sums.
template <class V>
struct Registers {
  using Part = V;
  static constexpr int kCount = 1, kQueries = 6, kSums = V::kTile;
  static EDGEDEC_INLINE V joined(const Part* parts) { return *parts; }
};

// Sixteen fp16 numbers, four in each integer.
template <class V>
EDGEDEC_INLINE V from_halves(const uint64_t* fours) {
  uint16_t halves[kLanes];
  std::memcpy(halves, fours, sizeof halves);
  return V::load_f16(halves);
}

// Stores four times sixteen integers in 0 .. 127 as bytes.
template <class I>
EDGEDEC_INLINE void store_small(const I* four, uint8_t* p) {
  for (int i = 0; i < 4; ++i) four[i].store_bytes(p + i * kLanes);
}

// Lane j = reduce_add(v[j]).
template <class V>
EDGEDEC_INLINE V reduce_add_each(const V* v) {
  typename V::Fold folds[kLanes / V::kFold];
  for (int t = 0; t < kLanes / V::kFold; ++t) {
    V x[V::kFold];
    for (int i = 0; i < V::kFold; ++i) x[i] = v[fold_index(t, i)];
    folds[t] = V::fold(x);
  }
  return V::unfold(folds);
}

}  // namespace
}  // namespace edgedec
