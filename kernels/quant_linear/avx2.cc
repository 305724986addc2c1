// AVX2: vpmaddubsw, whose 16-bit sums are kept below their limit by widening after every few steps.
#include "quant_linear/avx2_impl.h"

namespace edgedec::quant_linear::avx2 {
namespace {

struct Madd {
  // Bytes of Q8_0 do not fit vpmaddubsw as unsigned, so they are multiplied as |w| times x with the sign of w.
  static constexpr bool kSignedBytes = true;

  // Steps that fit 16 bits: max quant * 127 * 2 * steps <= 32767.
  template <class F>
  static constexpr int kSpan = F::kBits == 4 ? 8 : F::kBits == 5 ? 4 : F::kBits == 6 ? 2 : 1;

  template <class F>
  static EDGEDEC_INLINE __m256i product(__m256i w, __m256i x) {
    if constexpr (F::kBits == 8) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
  }

  template <class F, int STEPS>
  static EDGEDEC_INLINE Pair dot(const Pair* w, const int8_t* x) {
    constexpr int span = kSpan<F> < STEPS ? kSpan<F> : STEPS;
    const __m256i ones = _mm256_set1_epi16(1);
    Pair total = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int s0 = 0; s0 < STEPS; s0 += span) {
      __m256i v = broadcast4(x, s0);
      Pair part = {product<F>(w[s0].a, v), product<F>(w[s0].b, v)};
      for (int s = s0 + 1; s < s0 + span; ++s) {
        v = broadcast4(x, s);
        part = {_mm256_add_epi16(part.a, product<F>(w[s].a, v)), _mm256_add_epi16(part.b, product<F>(w[s].b, v))};
      }
      total = {_mm256_add_epi32(total.a, _mm256_madd_epi16(part.a, ones)),
               _mm256_add_epi32(total.b, _mm256_madd_epi16(part.b, ones))};
    }
    return total;
  }
};

}  // namespace

extern const Row row;
const Row row = {"avx2",
                 quantise,
                 {
#define X(F) tiles<F, Madd>,
                     EDGEDEC_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::avx2
