// Vec16 on one 512-bit register; needs AVX-512 F, BW, VL and DQ. See vec16.h for what the operations promise.
//
// With EDGEDEC_EMULATE_AVX512 the same code runs on the SIMDe library, so that a CPU without AVX-512 can test it.
#pragma once

#if defined(EDGEDEC_EMULATE_AVX512)
#include "simd/vec16_emulate.h"
#else
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header makes undefined registers by initialising a variable with itself (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

#include "simd/vec16.h"

namespace edgedec {
namespace {

struct Vec16Avx512 {
  static constexpr int kAccumulators = 12;
  static constexpr int kTile = 24;  // of the 32 registers
  static constexpr int kFold = 4;
  using Fold = __m512;
  __m512 v;

  struct Ints {
    __m512i v;

    static EDGEDEC_INLINE Ints broadcast(int32_t x) { return {_mm512_set1_epi32(x)}; }
    static EDGEDEC_INLINE Ints add(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
    static EDGEDEC_INLINE Ints sub(Ints a, Ints b) { return {_mm512_sub_epi32(a.v, b.v)}; }
    template <int N>
    static EDGEDEC_INLINE Ints shift_left(Ints a) {
      return {_mm512_slli_epi32(a.v, N)};
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_right(Ints a) {
      return {_mm512_srai_epi32(a.v, N)};
    }
    static EDGEDEC_INLINE Ints load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
    EDGEDEC_INLINE void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
    EDGEDEC_INLINE void store_bytes(void* p) const { _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v)); }
  };

  using V = Vec16Avx512;

  static EDGEDEC_INLINE __mmask16 below(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }

  static EDGEDEC_INLINE V load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static EDGEDEC_INLINE V load_partial(const float* p, size_t n) { return {_mm512_maskz_loadu_ps(below(n), p)}; }
  static EDGEDEC_INLINE V load_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static EDGEDEC_INLINE V load_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static EDGEDEC_INLINE V broadcast(float x) { return {_mm512_set1_ps(x)}; }
  EDGEDEC_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  EDGEDEC_INLINE void store_partial(float* p, size_t n) const { _mm512_mask_storeu_ps(p, below(n), v); }
  EDGEDEC_INLINE void store_f16(uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

  static EDGEDEC_INLINE V add(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
  static EDGEDEC_INLINE V sub(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static EDGEDEC_INLINE V mul(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static EDGEDEC_INLINE V div(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
  static EDGEDEC_INLINE V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static EDGEDEC_INLINE V max(V a, V b) { return {_mm512_max_ps(a.v, b.v)}; }
  static EDGEDEC_INLINE V min(V a, V b) { return {_mm512_min_ps(a.v, b.v)}; }
  static EDGEDEC_INLINE V sqrt(V a) { return {_mm512_sqrt_ps(a.v)}; }
  static EDGEDEC_INLINE V abs(V a) {
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff)))};
  }
  static EDGEDEC_INLINE V round(V a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
  static EDGEDEC_INLINE uint32_t greater_bits(V a, V b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ); }

  static EDGEDEC_INLINE Ints bits(V a) { return {_mm512_castps_si512(a.v)}; }
  static EDGEDEC_INLINE V from_bits(Ints a) { return {_mm512_castsi512_ps(a.v)}; }
  static EDGEDEC_INLINE Ints to_ints(V a) { return {_mm512_cvtps_epi32(a.v)}; }
  static EDGEDEC_INLINE V from_ints(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }

  static EDGEDEC_INLINE float reduce_add(V a) {
    // Lane i + 8, then lane i + 4, comes to lane i; the last two folds happen inside 128 bits.
    const __m512 eight = _mm512_add_ps(a.v, _mm512_shuffle_f32x4(a.v, a.v, 0x4e));
    const __m512 quad = _mm512_add_ps(eight, _mm512_shuffle_f32x4(eight, eight, 0xb1));
    const __m128 four = _mm512_castps512_ps128(quad);
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Folds 16 -> 8 -> 4: fold_index() puts sum j into lane j in the end. A blend takes what is in its place already: it
  // runs on more ports than a shuffle.
  static EDGEDEC_INLINE Fold fold(const V* x) {
    const __m512 ab = fold_halves(x[0].v, x[1].v), cd = fold_halves(x[2].v, x[3].v);
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  }
  static EDGEDEC_INLINE __m512 fold_halves(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
  }
  // Folds 4 -> 2 -> 1.
  static EDGEDEC_INLINE V unfold(const Fold* four) {
    __m512 two[2];
    for (int i = 0; i < 2; ++i) {
      const __m512 a = four[2 * i], b = four[2 * i + 1];
      two[i] = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    }
    return {_mm512_add_ps(_mm512_shuffle_ps(two[0], two[1], 0x88), _mm512_shuffle_ps(two[0], two[1], 0xdd))};
  }
  static EDGEDEC_INLINE float reduce_max(V a) {
    const __m512 eight = _mm512_max_ps(a.v, _mm512_shuffle_f32x4(a.v, a.v, 0x4e));
    const __m512 quad = _mm512_max_ps(eight, _mm512_shuffle_f32x4(eight, eight, 0xb1));
    const __m128 four = _mm512_castps512_ps128(quad);
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

#ifndef EDGEDEC_EMULATE_AVX512
EDGEDEC_INLINE Vec16Avx512 times_power(Vec16Avx512 x, Vec16Avx512 n, Vec16Avx512::Ints) { return {_mm512_scalef_ps(x.v, n.v)}; }
template <>
EDGEDEC_INLINE Vec16Avx512 from_halves<Vec16Avx512>(const uint64_t* fours) {
  const auto four = [=](int i) { return static_cast<long long>(fours[i]); };
  return {_mm512_cvtph_ps(_mm256_setr_epi64x(four(0), four(1), four(2), four(3)))};
}
EDGEDEC_INLINE void store_small(const Vec16Avx512::Ints* four, uint8_t* p) {
  const __m512i low = _mm512_packs_epi32(four[0].v, four[1].v), high = _mm512_packs_epi32(four[2].v, four[3].v);
  // Both pack within 128 bits, so that fours of bytes are out of order.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)));
}
#endif

}  // namespace
}  // namespace edgedec
