// AVX2: vpmaddubsw, whose 16-bit sums are widened after every few steps, before they can overflow.
#include "simd/vec16_avx2.h"
#include "quant_linear/avx2_impl.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::avx2 {
namespace {

struct Madd {
  // Eight bits do not fit vpmaddubsw as unsigned, so they are multiplied as |w| times x with the sign of w.
  static constexpr bool kSignedBytes = true, kFloatHalves = false;
  static constexpr int kFew = 5;  // ten sums, two products, two registers of quants, one of activations

  // Steps that fit 16 bits: max quant * 127 * 2 * steps <= 32767.
  template <class F>
  static constexpr int kSpan = kMaxQuant<F> > 63 ? 1 : kMaxQuant<F> > 31 ? 2 : kMaxQuant<F> > 15 || kHalves<F> ? 4 : 8;

  template <class F>
  static EDGEDEC_INLINE __m256i product(__m256i w, __m256i x) {
    if constexpr (kMaxQuant<F> > 127) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
  }

  // Without it GCC computes the products of many steps first and spills them, which costs two thirds of the speed.
  // Clang does so for several tokens; for one it finds a better order itself.
  template <int R>
  static EDGEDEC_INLINE void in_order([[maybe_unused]] Pair& p) {
#if defined(__clang__)
    if constexpr (R == 1) return;
#endif
    asm volatile("" : "+x"(p.a), "+x"(p.b));
  }

  // Widens 16-bit sums to 32 bits; the scale of a half, if it has one, goes in on the way.
  template <class F>
  static EDGEDEC_INLINE __m256i factor(__m256i sc, int s) {
    if constexpr (!kHalves<F> || kFloatScales<F>) return _mm256_set1_epi16(1);
    // The pair (sc0, sc1) of each column, with the selected scale in both halves.
    const __m256i low = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9,
                                         8, 9, 12, 13, 12, 13);
    return _mm256_shuffle_epi8(sc, s < kSteps / 2 ? low : _mm256_add_epi8(low, _mm256_set1_epi8(2)));
  }

  template <class F>
  static EDGEDEC_INLINE Pair products(__m256i a, __m256i b, __m256i v) {
    return {product<F>(a, v), product<F>(b, v)};
  }
  static EDGEDEC_INLINE Pair add16(const Pair& p, const Pair& q) {
    return {_mm256_add_epi16(p.a, q.a), _mm256_add_epi16(p.b, q.b)};
  }

  // Adds the products of the steps from s0 on whose sums fit 16 bits, widened by fa and fb.
  template <class F, int R, class W>
  static EDGEDEC_INLINE void add_span(const W& w, int s0, const int8_t* const* x, __m256i fa, __m256i fb, Pair* total) {
    constexpr int span = kSpan<F>;
    const auto widen = [&](int r, const Pair& p) {
      total[r] = {_mm256_add_epi32(total[r].a, _mm256_madd_epi16(p.a, fa)),
                  _mm256_add_epi32(total[r].b, _mm256_madd_epi16(p.b, fb))};
      if constexpr (span < 4) in_order<R>(total[r]);
    };
    if constexpr (span <= 2) {  // the quants have registers together: token by token
      const __m256i a0 = w.at(s0, 0), b0 = w.at(s0, 1), a1 = w.at(s0 + span - 1, 0), b1 = w.at(s0 + span - 1, 1);
      for (int r = 0; r < R; ++r) {
        const Pair p = products<F>(a0, b0, broadcast4(x[r], s0));
        if constexpr (span == 1)
          widen(r, p);
        else
          widen(r, add16(p, products<F>(a1, b1, broadcast4(x[r], s0 + 1))));
      }
      return;
    }
    Pair part[R];
#pragma GCC unroll 8
    for (int s = s0; s < s0 + span; ++s) {
      const __m256i a = w.at(s, 0), b = w.at(s, 1);
      for (int r = 0; r < R; ++r) {
        const Pair p = products<F>(a, b, broadcast4(x[r], s));
        part[r] = s == s0 ? p : add16(part[r], p);
        in_order<R>(part[r]);
      }
    }
    for (int r = 0; r < R; ++r) widen(r, part[r]);
  }

  // The sums of a group for R tokens where scales of halves are floats: one half after the other.
  template <class F, int R, class W>
  static EDGEDEC_INLINE void sums_of_halves(const W& w, const GroupScales& sc, const int8_t* const* x,
                                            const int32_t* const* sum, PairF* out) {
    static_assert(kSpan<F> == kSteps / 2, "a span is a half");
    const __m256i one = _mm256_set1_epi16(1);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      Pair total[R];
      for (int r = 0; r < R; ++r) total[r].a = total[r].b = _mm256_set1_epi32(-F::kOffset * sum[r][half]);
      add_span<F, R>(w, half * kSpan<F>, x, one, one, total);
      for (int r = 0; r < R; ++r) {
        const PairF f = floats(total[r]), &scale = sc.half[half];
        if (half == 0)
          out[r] = {_mm256_mul_ps(f.a, scale.a), _mm256_mul_ps(f.b, scale.b)};
        else
          out[r] = {_mm256_fmadd_ps(f.a, scale.a, out[r].a), _mm256_fmadd_ps(f.b, scale.b, out[r].b)};
      }
    }
  }

  // The sums of a group for R tokens. With scales of halves they begin at what the offset of the quants adds, negative.
  template <class F, int R, class W>
  static EDGEDEC_INLINE void sums(const W& w, const GroupScales& sc, const int8_t* const* x, const int32_t* const* sum,
                                  PairF* out) {
    if constexpr (kFloatScales<F>) return sums_of_halves<F, R>(w, sc, x, sum, out);
    Pair total[R];
    for (int r = 0; r < R; ++r) {
      total[r] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
      if constexpr (kHalves<F> && F::kOffset != 0) {
        const __m256i offset = _mm256_set1_epi16(-F::kOffset);
        total[r] = times_sums({_mm256_mullo_epi16(sc.sc.a, offset), _mm256_mullo_epi16(sc.sc.b, offset)}, sum[r]);
      }
    }
#pragma GCC unroll 8
    for (int s0 = 0; s0 < kSteps; s0 += kSpan<F>)
      add_span<F, R>(w, s0, x, factor<F>(sc.sc.a, s0), factor<F>(sc.sc.b, s0), total);
    for (int r = 0; r < R; ++r) out[r] = floats(total[r]);
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
