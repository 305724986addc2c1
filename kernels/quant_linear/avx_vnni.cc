// AVX-VNNI: vpdpbusd on 256 bits, unsigned quants times signed activations straight into 32 bits.
#include "simd/vec16_avx2.h"
#include "quant_linear/avx2_impl.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::avx_vnni {
namespace {

struct Vnni {
  static constexpr bool kSignedBytes = false, kFloatHalves = true;
  static constexpr int kFew = 6;  // twelve sums, two registers of quants, one of activations

  // One set of sums for all steps, or, with scales of halves, one after the other. The integers and their products with
  // scales are below 2^24: floats hold them, and only the last sum of two such products rounds.
  template <class F, int R, class W>
  static EDGEDEC_INLINE void sums(const W& w, const GroupScales& sc, const int8_t* const* x, const int32_t* const* sum,
                                  PairF* out) {
    constexpr int kParts = kHalves<F> ? 2 : 1, kEach = kSteps / kParts;
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      Pair p[R];
      for (int r = 0; r < R; ++r) p[r].a = p[r].b = start<F>(sum[r] + part);
#pragma GCC unroll 2
      for (int s = part * kEach; s < (part + 1) * kEach; s += 4) {
        __m256i four[R];
        if constexpr (kShuffles<F, W>)
          for (int r = 0; r < R; ++r) {
            four[r] = _mm256_broadcastsi128_si256(load128(x[r] + 4 * s));
            asm volatile("" : "+x"(four[r]));  // GCC would load it for each step
          }
        step<F, 0>(w, s, x, four, p);
        step<F, 1>(w, s, x, four, p);
        step<F, 2>(w, s, x, four, p);
        step<F, 3>(w, s, x, four, p);
      }
      for (int r = 0; r < R; ++r) {
        const PairF f = floats(p[r]), &scale = sc.half[part];
        if constexpr (!kHalves<F>)
          out[r] = f;
        else if (part == 0)
          out[r] = {_mm256_mul_ps(f.a, scale.a), _mm256_mul_ps(f.b, scale.b)};
        else
          out[r] = {_mm256_fmadd_ps(f.a, scale.a, out[r].a), _mm256_fmadd_ps(f.b, scale.b, out[r].b)};
      }
    }
  }

  // Whether the activations of four steps are loaded together and then shuffled: where scales of halves are loads too, and
  // the quants need no unpacking, loads are the limit.
  template <class F, class W>
  static constexpr bool kShuffles = kHalves<F> && W::kBuffered;

  // Adds the products of step s + S. `four`: the activations of steps s to s + 3 of each token, if kShuffles.
  template <class F, int S, int R, class W>
  static EDGEDEC_INLINE void step(const W& w, int s, const int8_t* const* x, const __m256i (&four)[R], Pair (&p)[R]) {
    const __m256i a = w.at(s + S, 0), b = w.at(s + S, 1);
    for (int r = 0; r < R; ++r) {
      const __m256i v = kShuffles<F, W> ? _mm256_shuffle_epi32(four[r], S * 0x55) : broadcast4(x[r], s + S);
      p[r] = {_mm256_dpbusd_avx_epi32(p[r].a, a, v), _mm256_dpbusd_avx_epi32(p[r].b, b, v)};
      in_order<W>(p[r]);
    }
  }

  // Keeps compilers from mixing steps, for which registers lack. From records Clang finds a better order itself.
  template <class W>
  static EDGEDEC_INLINE void in_order([[maybe_unused]] Pair& p) {
#if defined(__clang__)
    if constexpr (!W::kInOrder) return;
#endif
    asm volatile("" : "+x"(p.a), "+x"(p.b));
  }

  // With scales of halves sums begin at what the offset of the quants adds to them, negative.
  template <class F>
  static EDGEDEC_INLINE __m256i start(const int32_t* sum) {
    if constexpr (!kHalves<F> || F::kOffset == 0) return _mm256_setzero_si256();
    constexpr int kShift = F::kOffset == 0 ? 0 : __builtin_ctz(F::kOffset);  // of zero Clang says nothing
    static_assert(!kHalves<F> || F::kOffset == 0 || F::kOffset == 1 << kShift, "a power of two");
    return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(_mm256_set1_epi32(*sum), kShift));
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
