// AVX2: vpmaddubsw, whose 16-bit sums are widened after every few steps, before they can overflow.
#include "simd/vec16_avx2.h"
#include "quant_linear/avx2_impl.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::avx2 {
namespace {

struct Madd {
  // Eight bits do not fit vpmaddubsw as unsigned, so they are multiplied as |w| times x with the sign of w.
  static constexpr bool kSignedBytes = true;
  // Zen 3, one core: without the buffer two tokens are faster by 20 to 40 %, four by up to 20 %; six are slower.
  static constexpr int kFew = 4;

  // Steps that fit 16 bits: max quant * 127 * 2 * steps <= 32767.
  template <class F>
  static constexpr int kSpan = kMaxQuant<F> > 63 ? 1 : kMaxQuant<F> > 31 ? 2 : kMaxQuant<F> > 15 || kHalves<F> ? 4 : 8;

  template <class F>
  static EDGEDEC_INLINE __m256i product(__m256i w, __m256i x) {
    if constexpr (kMaxQuant<F> > 127) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
  }

  // Without it GCC computes the products of many steps first and spills them, which costs two thirds of the speed.
  // Clang keeps the order by itself, and with it would lose a fifth.
  static EDGEDEC_INLINE void in_order([[maybe_unused]] Pair& p) {
#if !defined(__clang__)
    asm volatile("" : "+x"(p.a), "+x"(p.b));
#endif
  }

  // Widens 16-bit sums to 32 bits; the scale of a half, if it has one, goes in on the way.
  template <class F>
  static EDGEDEC_INLINE __m256i factor(__m256i sc, int s) {
    if constexpr (!kHalves<F>) return _mm256_set1_epi16(1);
    // The pair (sc0, sc1) of each column, with the selected scale in both halves.
    const __m256i low = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9,
                                         8, 9, 12, 13, 12, 13);
    return _mm256_shuffle_epi8(sc, s < kSteps / 2 ? low : _mm256_add_epi8(low, _mm256_set1_epi8(2)));
  }

  template <class F, int R, class W>
  static EDGEDEC_INLINE void dot(const W& w, const Pair& sc, const int8_t* const* x, Pair* total) {
    constexpr int span = kSpan<F>;
    for (int r = 0; r < R; ++r) total[r] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 8
    for (int s0 = 0; s0 < kSteps; s0 += span) {
      Pair part[R];
#pragma GCC unroll 8
      for (int s = s0; s < s0 + span; ++s) {
        const __m256i a = w.at(s, 0), b = w.at(s, 1);
        for (int r = 0; r < R; ++r) {
          const __m256i v = broadcast4(x[r], s);
          const Pair p = {product<F>(a, v), product<F>(b, v)};
          part[r] = s == s0 ? p : Pair{_mm256_add_epi16(part[r].a, p.a), _mm256_add_epi16(part[r].b, p.b)};
          in_order(part[r]);
        }
      }
      const __m256i fa = factor<F>(sc.a, s0), fb = factor<F>(sc.b, s0);
      for (int r = 0; r < R; ++r) {
        total[r] = {_mm256_add_epi32(total[r].a, _mm256_madd_epi16(part[r].a, fa)),
                    _mm256_add_epi32(total[r].b, _mm256_madd_epi16(part[r].b, fb))};
        if constexpr (span < 4) in_order(total[r]);
      }
    }
  }
};

}  // namespace

extern const Row row;
const Row row = {"avx2",
                 quantise,
                 {
#define X(F) tiles<F, Madd>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Avx2>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::avx2
