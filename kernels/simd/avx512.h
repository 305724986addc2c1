// AVX-512 intrinsics: the compiler's, or SIMDe's on a machine without them (the emulated test library).
#pragma once

#ifdef EDGEDEC_EMULATE_AVX512
#include "simd/vec16_emulate.h"

static inline __m512i emulate_join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
static inline __m512i emulate_cvtepu8_epi32(__m128i v) {
  return emulate_join(_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)));
}
static inline __m512i emulate_cvtepi8_epi32(__m128i v) {
  return emulate_join(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(v) emulate_cvtepu8_epi32(v)
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(v) emulate_cvtepi8_epi32(v)
#else
#include <immintrin.h>
#endif
