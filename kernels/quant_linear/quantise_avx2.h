// Quantises activations with 256-bit registers, in every x86 row: 512 bits gain nothing here.
#pragma once

#include <immintrin.h>

#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {
namespace {

EDGEDEC_INLINE __m256 load_tail(const float* x, int left) {
  if (left >= 8) return _mm256_loadu_ps(x);
  float value[8] = {};
  for (int i = 0; i < left; ++i) value[i] = x[i];
  return _mm256_loadu_ps(value);
}

// The greatest of eight floats without signs, compared as integers: finite values in order, then infinity, then NaN,
// which a maximum of floats would lose.
EDGEDEC_INLINE float peak_of(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1))));
}

EDGEDEC_INLINE void quantise_group(const float* x, int left, int8_t* q, float* scale, int32_t* sum) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 v[4];
  __m256i top = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    v[i] = load_tail(x + 8 * i, left - 8 * i);
    top = _mm256_max_epi32(top, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  const float peak = peak_of(top);
  const bool finite = peak < __builtin_inff();
  const __m256 inverse = _mm256_set1_ps(peak >= kLeastPeak ? 127.0f / peak : 0.0f);
  *scale = finite ? peak / 127.0f : __builtin_nanf("");
  if (!finite)
    for (auto& part : v) part = _mm256_setzero_ps();
  __m256i n[4];
  for (int i = 0; i < 4; ++i) n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  const __m256i words0 = _mm256_packs_epi32(n[0], n[1]), words1 = _mm256_packs_epi32(n[2], n[3]);
  // The packs work within 128-bit lanes; the permutation puts the four-byte runs back in order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words0, words1), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  // Sums of the bytes + 128, eight at a time, then of each half.
  const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(bytes, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m256i halves = _mm256_add_epi32(eights, _mm256_shuffle_epi32(eights, 0x4e));
  sum[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(halves)) - 16 * 128;
  sum[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(halves, 1)) - 16 * 128;
}

void quantise(const float* x, int cols, int k, size_t first, size_t last, int8_t* q, float* scale, int32_t* sum) {
  for_groups(k, first, last, [&](size_t m, int g, size_t at) {
    quantise_group(x + m * cols + g * kGroup, cols - g * kGroup, q + at * kGroup, scale + at, sum + 2 * at);
  });
}

}  // namespace
}  // namespace edgedec::quant_linear
