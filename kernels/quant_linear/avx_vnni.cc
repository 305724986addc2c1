// AVX-VNNI: vpdpbusd on 256 bits, unsigned quants times signed activations straight into 32 bits.
#include "simd/vec16_avx2.h"
#include "quant_linear/avx2_impl.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::avx_vnni {
namespace {

struct Vnni {
  static constexpr bool kSignedBytes = false;
  static constexpr int kFew = 2;  // the sums of three would not all have a register

  template <class F, int R, class W>
  static EDGEDEC_INLINE void dot(const W& w, const Pair& sc, const int8_t* const* x, Pair* total) {
    Pair half[2][R];
    for (auto& h : half)
      for (auto& p : h) p = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s) {
      const __m256i a = w.at(s, 0), b = w.at(s, 1);
      for (int r = 0; r < R; ++r) {
        const __m256i v = broadcast4(x[r], s);
        Pair& p = half[s / (kSteps / 2)][r];
        p = {_mm256_dpbusd_avx_epi32(p.a, a, v), _mm256_dpbusd_avx_epi32(p.b, b, v)};
      }
    }
    for (int r = 0; r < R; ++r) total[r] = {join<F>(half[0][r].a, half[1][r].a, sc.a), join<F>(half[0][r].b, half[1][r].b, sc.b)};
  }

  // Scales of halves: each times its scale, the low and the high 16 bits of a column's pair.
  template <class F>
  static EDGEDEC_INLINE __m256i join(__m256i lo, __m256i hi, __m256i sc) {
    if constexpr (!kHalves<F>) return _mm256_add_epi32(lo, hi);
    const __m256i sc0 = _mm256_srai_epi32(_mm256_slli_epi32(sc, 16), 16), sc1 = _mm256_srai_epi32(sc, 16);
    return _mm256_add_epi32(_mm256_mullo_epi32(lo, sc0), _mm256_mullo_epi32(hi, sc1));
  }
};

}  // namespace

extern const Row row;
const Row row = {"avx_vnni",
                 quantise,
                 {
#define X(F) tiles<F, Vnni>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Avx2>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::avx_vnni
