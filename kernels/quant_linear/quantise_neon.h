// Quantises activations with 128-bit registers.
#pragma once

#include <arm_neon.h>

#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {
namespace {

EDGEDEC_INLINE float32x4_t load_tail(const float* x, int left) {
  if (left >= 4) return vld1q_f32(x);
  float value[4] = {};
  for (int i = 0; i < left; ++i) value[i] = x[i];
  return vld1q_f32(value);
}

EDGEDEC_INLINE void quantise_group(const float* x, int left, int8_t* q, float* scale, int32_t* sum) {
  float32x4_t v[8];
  // Floats without signs, compared as integers: finite values in order, then infinity, then NaN, which a maximum of
  // floats would lose.
  uint32x4_t top = vdupq_n_u32(0);
  for (int i = 0; i < 8; ++i) {
    v[i] = load_tail(x + 4 * i, left - 4 * i);
    top = vmaxq_u32(top, vreinterpretq_u32_f32(vabsq_f32(v[i])));
  }
  const uint32_t bits = vmaxvq_u32(top);
  float peak;
  __builtin_memcpy(&peak, &bits, 4);
  const bool finite = peak < __builtin_inff();
  const float32x4_t inverse = vdupq_n_f32(peak >= kLeastPeak ? 127.0f / peak : 0.0f);
  *scale = finite ? peak / 127.0f : __builtin_nanf("");
  if (!finite)
    for (auto& part : v) part = vdupq_n_f32(0.0f);
  for (int half = 0; half < 2; ++half) {
    int16x4_t words[4];
    for (int i = 0; i < 4; ++i) words[i] = vqmovn_s32(vcvtnq_s32_f32(vmulq_f32(v[4 * half + i], inverse)));
    const int8x16_t bytes = vcombine_s8(vqmovn_s16(vcombine_s16(words[0], words[1])),
                                        vqmovn_s16(vcombine_s16(words[2], words[3])));
    vst1q_s8(q + 16 * half, bytes);
    sum[half] = vaddlvq_s8(bytes);
  }
}

void quantise(const float* x, int cols, int k, size_t first, size_t last, int8_t* q, float* scale, int32_t* sum) {
  for_groups(k, first, last, [&](size_t m, int g, size_t at) {
    quantise_group(x + m * cols + g * kGroup, cols - g * kGroup, q + at * kGroup, scale + at, sum + 2 * at);
  });
}

}  // namespace
}  // namespace edgedec::quant_linear
