// Vec16 on four 128-bit registers of WebAssembly. See vec16.h for what the operations promise.
//
// WebAssembly has no fused multiply-add. A product of floats is exact in double, and the sum that is rounded to double gives
// the right float, unless it lies on a boundary: halfway between two floats, or among the subnormal ones and zero, whose
// boundaries lie closer. Then the sum is rounded to odd, which keeps what a boundary hides.
#pragma once

#include "simd/vec16.h"
#include "simd/wasm128.h"

namespace edgedec {
namespace {

struct Vec16Wasm {
  static constexpr int kAccumulators = 3;  // 12 of the 16 registers that most machines have
  static constexpr int kTile = 3;
  static constexpr int kFold = 1;
  using Fold = float;
  v128_t v[4];

  struct Ints {
    v128_t v[4];

    static EDGEDEC_INLINE Ints broadcast(int32_t x) {
      return each([=](int) { return wasm_i32x4_splat(x); });
    }
    static EDGEDEC_INLINE Ints add(const Ints& a, const Ints& b) {
      return each([&](int i) { return wasm_i32x4_add(a.v[i], b.v[i]); });
    }
    static EDGEDEC_INLINE Ints sub(const Ints& a, const Ints& b) {
      return each([&](int i) { return wasm_i32x4_sub(a.v[i], b.v[i]); });
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_left(const Ints& a) {
      return each([&](int i) { return wasm_i32x4_shl(a.v[i], N); });
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_right(const Ints& a) {
      return each([&](int i) { return wasm_i32x4_shr(a.v[i], N); });
    }
    static EDGEDEC_INLINE Ints load(const int32_t* p) {
      return each([=](int i) { return wasm_v128_load(p + 4 * i); });
    }
    EDGEDEC_INLINE void store_bytes(void* p) const {
      const v128_t low = wasm_i16x8_narrow_i32x4(v[0], v[1]), high = wasm_i16x8_narrow_i32x4(v[2], v[3]);
      wasm_v128_store(p, wasm_i8x16_narrow_i16x8(low, high));
    }
    EDGEDEC_INLINE void store(int32_t* p) const {
      for (int i = 0; i < 4; ++i) wasm_v128_store(p + 4 * i, v[i]);
    }
    template <class F>
    static EDGEDEC_INLINE Ints each(F f) {
      return {{f(0), f(1), f(2), f(3)}};
    }
  };

  template <class F>
  static EDGEDEC_INLINE Vec16Wasm each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }

  static EDGEDEC_INLINE Vec16Wasm load(const float* p) {
    return each([=](int i) { return wasm_v128_load(p + 4 * i); });
  }
  static EDGEDEC_INLINE Vec16Wasm load_partial(const float* p, size_t n) {
    if (n >= static_cast<size_t>(kLanes)) return load(p);
    float lane[kLanes] = {};
    for (size_t i = 0; i < n; ++i) lane[i] = p[i];
    return load(lane);
  }
  static EDGEDEC_INLINE Vec16Wasm load_f16(const uint16_t* p) {
    return each([=](int i) { return widen_halves(wasm_u32x4_load16x4(p + 4 * i)); });
  }
  static EDGEDEC_INLINE Vec16Wasm load_bf16(const uint16_t* p) {
    return each([=](int i) { return wasm_i32x4_shl(wasm_u32x4_load16x4(p + 4 * i), 16); });
  }
  static EDGEDEC_INLINE Vec16Wasm broadcast(float x) {
    return each([=](int) { return wasm_f32x4_splat(x); });
  }
  EDGEDEC_INLINE void store(float* p) const {
    for (int i = 0; i < 4; ++i) wasm_v128_store(p + 4 * i, v[i]);
  }
  EDGEDEC_INLINE void store_partial(float* p, size_t n) const {
    if (n >= static_cast<size_t>(kLanes)) return store(p);
    float lane[kLanes];
    store(lane);
    for (size_t i = 0; i < n; ++i) p[i] = lane[i];
  }
  EDGEDEC_INLINE void store_f16(uint16_t* p) const {
    float lane[kLanes];
    store(lane);
    for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(lane[i]);
  }

  using V = const Vec16Wasm&;
  static EDGEDEC_INLINE Vec16Wasm add(V a, V b) {
    return each([&](int i) { return wasm_f32x4_add(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm sub(V a, V b) {
    return each([&](int i) { return wasm_f32x4_sub(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm mul(V a, V b) {
    return each([&](int i) { return wasm_f32x4_mul(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm div(V a, V b) {
    return each([&](int i) { return wasm_f32x4_div(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm fma(V a, V b, V c) {
    return each([&](int i) { return fma4(a.v[i], b.v[i], c.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm max(V a, V b) {
    return each([&](int i) { return wasm_f32x4_pmax(b.v[i], a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm min(V a, V b) {
    return each([&](int i) { return wasm_f32x4_pmin(b.v[i], a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm sqrt(V a) {
    return each([&](int i) { return wasm_f32x4_sqrt(a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm abs(V a) {
    return each([&](int i) { return wasm_f32x4_abs(a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Wasm round(V a) {
    return each([&](int i) { return wasm_f32x4_nearest(a.v[i]); });
  }
  static EDGEDEC_INLINE uint32_t greater_bits(V a, V b) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(wasm_i32x4_bitmask(wasm_f32x4_gt(a.v[i], b.v[i]))) << 4 * i;
    return bits;
  }

  static EDGEDEC_INLINE Ints bits(V a) {
    return Ints::each([&](int i) { return a.v[i]; });
  }
  static EDGEDEC_INLINE Vec16Wasm from_bits(const Ints& a) {
    return each([&](int i) { return a.v[i]; });
  }
  static EDGEDEC_INLINE Ints to_ints(V a) {
    return Ints::each([&](int i) { return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(a.v[i])); });
  }
  static EDGEDEC_INLINE Vec16Wasm from_ints(const Ints& a) {
    return each([&](int i) { return wasm_f32x4_convert_i32x4(a.v[i]); });
  }

  static EDGEDEC_INLINE float reduce_add(V a) {
    const v128_t four = fold4(a), two = wasm_f32x4_add(four, upper(four));
    return wasm_f32x4_extract_lane(two, 0) + wasm_f32x4_extract_lane(two, 1);
  }
  static EDGEDEC_INLINE Fold fold(const Vec16Wasm* x) { return reduce_add(*x); }
  static EDGEDEC_INLINE Vec16Wasm unfold(const Fold* f) { return load(f); }
  static EDGEDEC_INLINE float reduce_max(V a) {
    const v128_t four = greater(greater(a.v[0], a.v[2]), greater(a.v[1], a.v[3])), two = greater(four, upper(four));
    const float first = wasm_f32x4_extract_lane(two, 0), second = wasm_f32x4_extract_lane(two, 1);
    return first > second ? first : second;
  }

  // a * b + c, rounded once.
#ifdef __wasm_relaxed_simd__
  static EDGEDEC_INLINE v128_t fma4(v128_t a, v128_t b, v128_t c) { return wasm_f32x4_relaxed_madd(a, b, c); }
#else
  static EDGEDEC_INLINE v128_t fma4(v128_t a, v128_t b, v128_t c) {
    const v128_t low = wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b));
    const v128_t high = wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(upper(a)), wasm_f64x2_promote_low_f32x4(upper(b)));
    const v128_t c_low = wasm_f64x2_promote_low_f32x4(c), c_high = wasm_f64x2_promote_low_f32x4(upper(c));
    const v128_t sum_low = wasm_f64x2_add(low, c_low), sum_high = wasm_f64x2_add(high, c_high);
    const v128_t result = join(sum_low, sum_high);
    const v128_t small = wasm_f32x4_le(wasm_f32x4_abs(result), wasm_f32x4_const_splat(0x1p-126f));
    const v128_t halfway = wasm_v128_or(is_halfway(sum_low), is_halfway(sum_high));
    if (__builtin_expect(!wasm_v128_any_true(wasm_v128_or(small, halfway)), 1)) return result;
    return join(odd(low, c_low, sum_low), odd(high, c_high, sum_high));
  }
#endif

 private:
  static EDGEDEC_INLINE v128_t upper(v128_t a) { return wasm_i32x4_shuffle(a, a, 2, 3, 2, 3); }
  static EDGEDEC_INLINE v128_t greater(v128_t a, v128_t b) { return wasm_f32x4_pmax(b, a); }
  static EDGEDEC_INLINE v128_t fold4(V a) {  // 16 -> 8 -> 4
    return wasm_f32x4_add(wasm_f32x4_add(a.v[0], a.v[2]), wasm_f32x4_add(a.v[1], a.v[3]));
  }
  static EDGEDEC_INLINE v128_t join(v128_t low, v128_t high) {
    return wasm_i32x4_shuffle(wasm_f32x4_demote_f64x2_zero(low), wasm_f32x4_demote_f64x2_zero(high), 0, 1, 4, 5);
  }
  // Whether a double lies halfway between two floats, or would if their exponent were large enough.
  static EDGEDEC_INLINE v128_t is_halfway(v128_t sum) {
    return wasm_i64x2_eq(wasm_v128_and(sum, wasm_i64x2_const_splat(0x1fffffff)), wasm_i64x2_const_splat(0x10000000));
  }
  // a + b rounded to odd, of `sum`, their sum rounded to even: where the sum is not exact and its last bit is even, the double
  // beside it that lies on the side of the error.
  static EDGEDEC_INLINE v128_t odd(v128_t a, v128_t b, v128_t sum) {
    const v128_t part = wasm_f64x2_sub(sum, a);
    const v128_t error = wasm_f64x2_add(wasm_f64x2_sub(a, wasm_f64x2_sub(sum, part)), wasm_f64x2_sub(b, part));
    const v128_t zero = wasm_f64x2_const_splat(0.0), one = wasm_i64x2_const_splat(1);
    const v128_t above = wasm_f64x2_gt(error, zero), below = wasm_f64x2_lt(error, zero);
    const v128_t even = wasm_i64x2_eq(wasm_v128_and(sum, one), wasm_i64x2_const_splat(0));
    const v128_t away = wasm_v128_xor(above, wasm_f64x2_lt(sum, zero));  // from zero: the bits of the magnitude grow
    const v128_t step = wasm_v128_bitselect(one, wasm_i64x2_const_splat(-1), away);
    return wasm_i64x2_add(sum, wasm_v128_and(step, wasm_v128_and(even, wasm_v128_or(above, below))));
  }
  // fp16 in the lower halves of four words. Its exponent and fraction, as those of a float, are 2^112 too small.
  static EDGEDEC_INLINE v128_t widen_halves(v128_t halves) {
    const v128_t magnitude = wasm_v128_and(halves, wasm_i32x4_const_splat(0x7fff));
    const v128_t sign = wasm_i32x4_shl(wasm_v128_and(halves, wasm_i32x4_const_splat(0x8000)), 16);
    const v128_t shifted = wasm_i32x4_shl(magnitude, 13);
    const v128_t finite = wasm_f32x4_mul(shifted, wasm_f32x4_const_splat(0x1p112f));
    const v128_t quiet = wasm_v128_and(wasm_i32x4_gt(magnitude, wasm_i32x4_const_splat(0x7c00)), wasm_i32x4_const_splat(0x400000));
    const v128_t special = wasm_v128_or(wasm_v128_or(shifted, wasm_i32x4_const_splat(0x7f800000)), quiet);
    const v128_t is_special = wasm_i32x4_ge(magnitude, wasm_i32x4_const_splat(0x7c00));
    return wasm_v128_or(sign, wasm_v128_bitselect(special, finite, is_special));
  }
};

}  // namespace
}  // namespace edgedec
