// Vec16 on four 128-bit NEON registers; needs no more than ARMv8.0. See vec16.h for what the operations promise.
#pragma once

#include <arm_neon.h>

#include "simd/vec16.h"

namespace edgedec {
namespace {

struct Vec16Neon {
  static constexpr int kAccumulators = 6;  // 24 of the 32 registers
  static constexpr int kTile = 6;
  static constexpr int kFold = 1;
  using Fold = float32x4_t;
  float32x4_t v[4];

  struct Ints {
    int32x4_t v[4];

    static EDGEDEC_INLINE Ints broadcast(int32_t x) {
      return each([=](int) { return vdupq_n_s32(x); });
    }
    static EDGEDEC_INLINE Ints add(const Ints& a, const Ints& b) {
      return each([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
    }
    static EDGEDEC_INLINE Ints sub(const Ints& a, const Ints& b) {
      return each([&](int i) { return vsubq_s32(a.v[i], b.v[i]); });
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_left(const Ints& a) {
      return each([&](int i) { return vshlq_n_s32(a.v[i], N); });
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_right(const Ints& a) {
      return each([&](int i) { return vshrq_n_s32(a.v[i], N); });
    }
    static EDGEDEC_INLINE Ints load(const int32_t* p) {
      return each([=](int i) { return vld1q_s32(p + 4 * i); });
    }
    EDGEDEC_INLINE void store_bytes(void* p) const {
      const int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
      const int16x8_t high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
      vst1q_s8(static_cast<int8_t*>(p), vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    }
    EDGEDEC_INLINE void store(int32_t* p) const {
      for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, v[i]);
    }
    template <class F>
    static EDGEDEC_INLINE Ints each(F f) {
      return {{f(0), f(1), f(2), f(3)}};
    }
  };

  template <class F>
  static EDGEDEC_INLINE Vec16Neon each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }

  static EDGEDEC_INLINE Vec16Neon load(const float* p) {
    return each([=](int i) { return vld1q_f32(p + 4 * i); });
  }
  static EDGEDEC_INLINE Vec16Neon load_partial(const float* p, size_t n) {
    if (n >= static_cast<size_t>(kLanes)) return load(p);
    float lane[kLanes] = {};
    for (size_t i = 0; i < n; ++i) lane[i] = p[i];
    return load(lane);
  }
  static EDGEDEC_INLINE Vec16Neon load_f16(const uint16_t* p) {
    return each([=](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
  }
  static EDGEDEC_INLINE Vec16Neon load_bf16(const uint16_t* p) {
    return each([=](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
  }
  static EDGEDEC_INLINE Vec16Neon broadcast(float x) {
    return each([=](int) { return vdupq_n_f32(x); });
  }
  EDGEDEC_INLINE void store(float* p) const {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, v[i]);
  }
  EDGEDEC_INLINE void store_partial(float* p, size_t n) const {
    if (n >= static_cast<size_t>(kLanes)) return store(p);
    float lane[kLanes];
    store(lane);
    for (size_t i = 0; i < n; ++i) p[i] = lane[i];
  }
  EDGEDEC_INLINE void store_f16(uint16_t* p) const {
    for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v[i])));
  }

  using V = const Vec16Neon&;
  static EDGEDEC_INLINE Vec16Neon add(V a, V b) {
    return each([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon sub(V a, V b) {
    return each([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon mul(V a, V b) {
    return each([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon div(V a, V b) {
    return each([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon fma(V a, V b, V c) {
    return each([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
  }
  // Not vmaxq_f32, which returns NaN when either operand is one, and orders the zeros.
  static EDGEDEC_INLINE Vec16Neon max(V a, V b) {
    return each([&](int i) { return greater(a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon min(V a, V b) {
    return each([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon sqrt(V a) {
    return each([&](int i) { return vsqrtq_f32(a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon abs(V a) {
    return each([&](int i) { return vabsq_f32(a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon round(V a) {
    return each([&](int i) { return vrndnq_f32(a.v[i]); });
  }
  static EDGEDEC_INLINE uint32_t greater_bits(V a, V b) {
    const uint32_t bit[4] = {1, 2, 4, 8};
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= vaddvq_u32(vandq_u32(vcgtq_f32(a.v[i], b.v[i]), vld1q_u32(bit))) << 4 * i;
    return bits;
  }

  static EDGEDEC_INLINE Ints bits(V a) {
    return Ints::each([&](int i) { return vreinterpretq_s32_f32(a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon from_bits(const Ints& a) {
    return each([&](int i) { return vreinterpretq_f32_s32(a.v[i]); });
  }
  static EDGEDEC_INLINE Ints to_ints(V a) {
    return Ints::each([&](int i) { return vcvtnq_s32_f32(a.v[i]); });
  }
  static EDGEDEC_INLINE Vec16Neon from_ints(const Ints& a) {
    return each([&](int i) { return vcvtq_f32_s32(a.v[i]); });
  }

  static EDGEDEC_INLINE float reduce_add(V a) {
    const float32x4_t four = fold4(a);
    return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
  }
  static EDGEDEC_INLINE Fold fold(const Vec16Neon* x) { return fold4(*x); }
  static EDGEDEC_INLINE Vec16Neon unfold(const Fold* f) {
    return each([=](int i) {
      const Fold* four = f + 4 * i;
      return vpaddq_f32(fold2(four[0], four[1]), fold2(four[2], four[3]));
    });
  }
  static EDGEDEC_INLINE float reduce_max(V a) {
    const float32x4_t four = greater(greater(a.v[0], a.v[2]), greater(a.v[1], a.v[3]));
    const float32x4_t two = greater(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(greater(two, vextq_f32(two, two, 1)), 0);
  }

 private:
  static EDGEDEC_INLINE float32x4_t greater(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
  }
  static EDGEDEC_INLINE float32x4_t fold4(V a) {  // 16 -> 8 -> 4
    return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  }
  static EDGEDEC_INLINE float32x4_t fold2(float32x4_t a, float32x4_t b) {  // 4 -> 2, of two vectors
    return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)), vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
  }
};

}  // namespace
}  // namespace edgedec
