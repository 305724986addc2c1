// Vec16 on two 256-bit registers; needs AVX2, FMA and F16C. See vec16.h for what the operations promise.
#pragma once

#include <immintrin.h>

#include "simd/vec16.h"

namespace edgedec {
namespace {

struct Vec16Avx2 {
  static constexpr int kAccumulators = 6;  // twelve of the sixteen registers
  static constexpr int kTile = 4;  // a value in a register pair lies beside them
  static constexpr int kFold = 1;
  using Fold = __m128;
  __m256 lo, hi;

  struct Ints {
    __m256i lo, hi;

    static EDGEDEC_INLINE Ints broadcast(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
    static EDGEDEC_INLINE Ints add(Ints a, Ints b) {
      return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
    }
    static EDGEDEC_INLINE Ints sub(Ints a, Ints b) {
      return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_left(Ints a) {
      return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
    }
    template <int N>
    static EDGEDEC_INLINE Ints shift_right(Ints a) {
      return {_mm256_srai_epi32(a.lo, N), _mm256_srai_epi32(a.hi, N)};
    }
    static EDGEDEC_INLINE Ints load(const int32_t* p) {
      const auto* at = reinterpret_cast<const __m256i*>(p);
      return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
    }
    EDGEDEC_INLINE void store_bytes(void* p) const {
      const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8);
      const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
      _mm_storeu_si128(static_cast<__m128i*>(p), bytes);
    }
    EDGEDEC_INLINE void store(int32_t* p) const {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), lo);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), hi);
    }
  };

  using V = Vec16Avx2;

  // All ones in the lanes first..first + 7 that are below n.
  static EDGEDEC_INLINE __m256i below(size_t n, int first) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n) - first), lane);
  }

  static EDGEDEC_INLINE V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static EDGEDEC_INLINE V load_partial(const float* p, size_t n) {
    return {_mm256_maskload_ps(p, below(n, 0)), _mm256_maskload_ps(p + 8, below(n, 8))};
  }
  static EDGEDEC_INLINE V load_f16(const uint16_t* p) {
    const auto* half = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
  }
  static EDGEDEC_INLINE V load_bf16(const uint16_t* p) {
    const auto* half = reinterpret_cast<const __m128i*>(p);
    const __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(half));
    const __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128(half + 1));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
  }
  static EDGEDEC_INLINE V broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  EDGEDEC_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  EDGEDEC_INLINE void store_partial(float* p, size_t n) const {
    _mm256_maskstore_ps(p, below(n, 0), lo);
    _mm256_maskstore_ps(p + 8, below(n, 8), hi);
  }
  EDGEDEC_INLINE void store_f16(uint16_t* p) const {
    auto* half = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(half, _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(half + 1, _mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT));
  }

  static EDGEDEC_INLINE V add(V a, V b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  static EDGEDEC_INLINE V sub(V a, V b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  static EDGEDEC_INLINE V mul(V a, V b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  static EDGEDEC_INLINE V div(V a, V b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static EDGEDEC_INLINE V fma(V a, V b, V c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static EDGEDEC_INLINE V max(V a, V b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static EDGEDEC_INLINE V min(V a, V b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static EDGEDEC_INLINE V sqrt(V a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
  static EDGEDEC_INLINE V abs(V a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static EDGEDEC_INLINE V round(V a) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
  }
  static EDGEDEC_INLINE uint32_t greater_bits(V a, V b) {
    const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ));
    const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ));
    return static_cast<uint32_t>(lo | hi << 8);
  }

  static EDGEDEC_INLINE Ints bits(V a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
  static EDGEDEC_INLINE V from_bits(Ints a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
  static EDGEDEC_INLINE Ints to_ints(V a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
  static EDGEDEC_INLINE V from_ints(Ints a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

  static EDGEDEC_INLINE float reduce_add(V a) {
    const __m128 four = fold(&a), two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Folds 16 -> 8 -> 4.
  static EDGEDEC_INLINE Fold fold(const V* x) {
    const __m256 eight = _mm256_add_ps(x->lo, x->hi);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  }
  // Folds 4 -> 2 -> 1.
  static EDGEDEC_INLINE __m256 both(__m128 a, __m128 b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1);
  }
  static EDGEDEC_INLINE __m256 unfold8(const Fold* four) {
    __m256 two[2];
    for (int i = 0; i < 2; ++i) {
      const __m256 a = both(four[2 * i], four[2 * i + 4]), b = both(four[2 * i + 1], four[2 * i + 5]);
      two[i] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xdd));
  }
  static EDGEDEC_INLINE V unfold(const Fold* four) { return {unfold8(four), unfold8(four + 8)}; }
  static EDGEDEC_INLINE float reduce_max(V a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

template <>
struct Registers<Vec16Avx2> {
  struct Part {
    __m256 v;

    static EDGEDEC_INLINE Part broadcast(float x) { return {_mm256_set1_ps(x)}; }
    static EDGEDEC_INLINE Part load(const float* p) {
      Part loaded{_mm256_loadu_ps(p)};
      asm("" : "+x"(loaded.v));  // GCC would load it again for each use
      return loaded;
    }
    static EDGEDEC_INLINE Part load_f16(const uint16_t* p) {
      return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
    }
    static EDGEDEC_INLINE Part fma(Part a, Part b, Part c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  };
  static constexpr int kCount = 2, kQueries = 3, kSums = 6;
  static EDGEDEC_INLINE Vec16Avx2 joined(const Part* parts) { return {parts[0].v, parts[1].v}; }
};

}  // namespace
}  // namespace edgedec
