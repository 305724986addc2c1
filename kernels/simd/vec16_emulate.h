// AVX-512 on SIMDe for tests, plus the few operations that SIMDe 0.7.4 lacks, made of 256-bit halves.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <cstring>

namespace edgedec {
namespace {
namespace emulate {

struct Halves {
  simde__m256i half[2];
};

template <class To, class From>
inline __attribute__((always_inline)) To cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a cast keeps its bits");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline __attribute__((always_inline)) simde__m512 load_masked(unsigned mask, const float* p) {
  float lane[16] = {};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) lane[i] = p[i];
  return simde_mm512_loadu_ps(lane);
}

inline __attribute__((always_inline)) void store_masked(float* p, unsigned mask, simde__m512 v) {
  float lane[16];
  simde_mm512_storeu_ps(lane, v);
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) p[i] = lane[i];
}

inline __attribute__((always_inline)) simde__m512 from_half(simde__m256i h) {
  struct Pair {
    simde__m128i half[2];
  };
  struct Wide {
    simde__m256 half[2];
  };
  const Pair pair = cast<Pair>(h);
  return cast<simde__m512>(Wide{{simde_mm256_cvtph_ps(pair.half[0]), simde_mm256_cvtph_ps(pair.half[1])}});
}

inline __attribute__((always_inline)) simde__m512i widen_u16(simde__m256i v) {
  struct Pair {
    simde__m128i half[2];
  };
  const Pair pair = cast<Pair>(v);
  const Halves wide = {{simde_mm256_cvtepu16_epi32(pair.half[0]), simde_mm256_cvtepu16_epi32(pair.half[1])}};
  return cast<simde__m512i>(wide);
}

inline __attribute__((always_inline)) simde__m256i to_half(simde__m512 v) {
  struct Pair {
    simde__m128i half[2];
  };
  struct Wide {
    simde__m256 half[2];
  };
  const Wide wide = cast<Wide>(v);
  return cast<simde__m256i>(Pair{{simde_mm256_cvtps_ph(wide.half[0], 0), simde_mm256_cvtps_ph(wide.half[1], 0)}});
}

template <class F>
inline __attribute__((always_inline)) Halves each(const Halves& a, F f) {
  return {{f(a.half[0]), f(a.half[1])}};
}

inline __attribute__((always_inline)) simde__m512i to_ints(simde__m512 v) {
  return cast<simde__m512i>(each(cast<Halves>(v), [](simde__m256i x) {
    return simde_mm256_cvtps_epi32(simde_mm256_castsi256_ps(x));
  }));
}

inline __attribute__((always_inline)) simde__m512 from_ints(simde__m512i v) {
  return cast<simde__m512>(each(cast<Halves>(v), [](simde__m256i x) {
    return simde_mm256_castps_si256(simde_mm256_cvtepi32_ps(x));
  }));
}

inline __attribute__((always_inline)) simde__m512i load_bytes(unsigned long long mask, const void* p) {
  signed char bytes[64] = {};
  for (int i = 0; i < 64; ++i)
    if (mask >> i & 1) bytes[i] = static_cast<const signed char*>(p)[i];
  return cast<simde__m512i>(bytes);
}

inline __attribute__((always_inline)) simde__m128i low_bytes(simde__m512i v) {
  int32_t wide[16];
  signed char bytes[16];
  std::memcpy(wide, &v, sizeof wide);
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<signed char>(wide[i]);
  return cast<simde__m128i>(bytes);
}

template <int N>
inline __attribute__((always_inline)) simde__m512i shift_right(simde__m512i v) {
  return cast<simde__m512i>(each(cast<Halves>(v), [](simde__m256i x) { return simde_mm256_srai_epi32(x, N); }));
}

}  // namespace emulate
}  // namespace
}  // namespace edgedec

#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps(mask, p) edgedec::emulate::load_masked(mask, p)
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps(p, mask, v) edgedec::emulate::store_masked(p, mask, v)
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(h) edgedec::emulate::from_half(h)
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(v) edgedec::emulate::widen_u16(v)
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(v, rounding) edgedec::emulate::to_half(v)
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(v) edgedec::emulate::to_ints(v)
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(v) edgedec::emulate::from_ints(v)
#undef _mm512_maskz_loadu_epi8
#define _mm512_maskz_loadu_epi8(mask, p) edgedec::emulate::load_bytes(mask, p)
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8(v) edgedec::emulate::low_bytes(v)
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(v, n) edgedec::emulate::shift_right<n>(v)
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, order) simde_mm512_shuffle_f32x4(a, b, order)
