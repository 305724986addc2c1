// Byte products by sdot, signed bytes times signed ones: weights are below 128. The lane of four bytes is part of the
// instruction; a switch over it costs nothing, since it is constant once a loop is unrolled.
#pragma once

#include <arm_neon.h>

#include "byte_products/quads_impl.h"

namespace edgedec::byte_products {
namespace {

struct Sdot {
  using Bytes = int8x16_t;
  using Sum = int32x4_t;
  using Key = int8x16_t;
  using Value = int8x16_t;
  static constexpr int kSums = 16;

  static EDGEDEC_INLINE Bytes load(const int8_t* p) { return vld1q_s8(p); }
  static EDGEDEC_INLINE Bytes zero() { return vdupq_n_s8(0); }
  static EDGEDEC_INLINE Bytes low8(Bytes a, Bytes b) { return vzip1q_s8(a, b); }
  static EDGEDEC_INLINE Bytes high8(Bytes a, Bytes b) { return vzip2q_s8(a, b); }
  static EDGEDEC_INLINE Bytes low16(Bytes a, Bytes b) {
    return vreinterpretq_s8_s16(vzip1q_s16(vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b)));
  }
  static EDGEDEC_INLINE Bytes high16(Bytes a, Bytes b) {
    return vreinterpretq_s8_s16(vzip2q_s16(vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b)));
  }
  static EDGEDEC_INLINE Bytes low32(Bytes a, Bytes b) {
    return vreinterpretq_s8_s32(vzip1q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
  }
  static EDGEDEC_INLINE Bytes high32(Bytes a, Bytes b) {
    return vreinterpretq_s8_s32(vzip2q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
  }

  static EDGEDEC_INLINE Sum start() { return vdupq_n_s32(0); }
  static EDGEDEC_INLINE void store(int32_t* p, Sum sum) { vst1q_s32(p, sum); }
  static EDGEDEC_INLINE void add(int32_t* p, Sum sum) { vst1q_s32(p, vaddq_s32(vld1q_s32(p), sum)); }

  struct Fours {
    int8x16_t bytes;
    explicit EDGEDEC_INLINE Fours(const int8_t* p) : bytes(vld1q_s8(p)) {}
  };
  struct One {
    int8x16_t bytes;
    explicit EDGEDEC_INLINE One(const int8_t* p) {
      int32_t four;
      __builtin_memcpy(&four, p, sizeof four);
      bytes = vreinterpretq_s8_s32(vdupq_n_s32(four));
    }
  };
  template <class B>
  static EDGEDEC_INLINE Sum add_key(Sum sum, Key key, const B& by, int lane) {
    switch (lane) {
      case 0: return vdotq_laneq_s32(sum, key, by.bytes, 0);
      case 1: return vdotq_laneq_s32(sum, key, by.bytes, 1);
      case 2: return vdotq_laneq_s32(sum, key, by.bytes, 2);
      default: return vdotq_laneq_s32(sum, key, by.bytes, 3);
    }
  }
  template <class B>
  static EDGEDEC_INLINE Sum add_value(Sum sum, Value value, const B& by, int lane) { return add_key(sum, value, by, lane); }
};

}  // namespace
}  // namespace edgedec::byte_products
