// The 256-bit rows: dot products of unsigned quants with signed activations. A policy D chooses the instruction:
//   D::kFew                  the most tokens whose sums stay in registers
//   D::kSignedBytes          quants above 127 are taken signed, without their offset
//   D::kFloatHalves          scales of halves are wanted as floats
//   D::sums<F, R>(...)       the exact sums of products of a group, as floats, for R tokens
#pragma once

#include "quant_linear/quantise_avx2.h"
#include "quant_linear/tile_loop.h"
#include "quant_linear/unpack_avx2.h"

namespace edgedec::quant_linear {
namespace {

EDGEDEC_INLINE __m256i broadcast4(const int8_t* x, int s) {
  int32_t four;
  __builtin_memcpy(&four, x + 4 * s, 4);
  return _mm256_set1_epi32(four);
}

// Whether policy D takes the quants of F signed.
template <class F, class D>
constexpr bool kSigned = D::kSignedBytes && kMaxQuant<F> > 127;

// The most tokens of a block. Where halves have scales of their own, the sums of both need room at once.
template <class F, class D>
constexpr int kFew = kHalves<F> ? std::min(D::kFew, 4) : D::kFew;

// Whether the first of several blocks keeps what it unpacks for the others, which costs less than unpacking before it:
// processors unpack beside the products. With scales of halves registers lack for both.
template <class F>
constexpr bool kKeeps = !kHalves<F>;

// Unpacked quants of a group, one half of the columns: straight from the record, kept on the way, or from the buffer that
// keeps them, which stays in the first-level cache.
template <class F, int ODD, bool SIGNED>
struct FromRecord {
  static constexpr bool kBuffered = false, kInOrder = false;
  const uint8_t* rec;
  int group;
  EDGEDEC_INLINE __m256i at(int s, int half) const { return unpack_half<F, ODD, SIGNED>(rec, group, s, half * 32); }
};
template <class F, int ODD, bool SIGNED>
struct Keeping {
  static constexpr bool kBuffered = false, kInOrder = true;
  const uint8_t* rec;
  int group;
  __m256i* kept;
  EDGEDEC_INLINE __m256i at(int s, int half) const {
    return kept[2 * s + half] = unpack_half<F, ODD, SIGNED>(rec, group, s, half * 32);
  }
};
struct FromBuffer {
  static constexpr bool kBuffered = true, kInOrder = true;
  const __m256i* w;
  EDGEDEC_INLINE __m256i at(int s, int half) const { return w[2 * s + half]; }
};

// The sums of both halves of a group, side by side as 16-bit numbers, which they fit.
EDGEDEC_INLINE __m256i sum_pair(const int32_t* sum) {
  double both;
  __builtin_memcpy(&both, sum, 8);
  const __m256i lower = _mm256_set1_epi32(0x05040100);
  return _mm256_shuffle_epi8(_mm256_castpd_si256(_mm256_set1_pd(both)), lower);
}

// A pair of integers per column times the sums of 16 activations each.
EDGEDEC_INLINE Pair times_sums(const Pair& of_halves, const int32_t* sum) {
  const __m256i sums = sum_pair(sum);
  return {_mm256_madd_epi16(of_halves.a, sums), _mm256_madd_epi16(of_halves.b, sums)};
}

EDGEDEC_INLINE PairF floats(const Pair& p) { return {_mm256_cvtepi32_ps(p.a), _mm256_cvtepi32_ps(p.b)}; }

// Adds a group's exact sum of products, as a float, to an accumulator.
template <class F>
EDGEDEC_INLINE __m256 step(__m256 isum, __m256 scale, __m256 minus_min, __m256 xsum, __m256 xscale, __m256 acc) {
  __m256 t = _mm256_mul_ps(isum, scale);
  if constexpr (F::kMin) t = _mm256_fmadd_ps(minus_min, xsum, t);
  return _mm256_fmadd_ps(t, xscale, acc);
}

// R tokens from m on. Policy D sums products of unsigned quants. Where those have an offset, the sums of activations
// correct for it: here, in floats, which hold these integers exactly; with scales of halves D does.
template <class F, class D, int R, class W>
EDGEDEC_INLINE void group_tokens(const W& w, const GroupScales& s, const Acts& x, int m, int index, PairF* acc) {
  const int8_t* q[R];
  const int32_t* sum[R];
  const size_t groups = static_cast<unsigned>(x.k) / kGroup, first = m * groups + index;
  for (int r = 0; r < R; ++r) {
    q[r] = r ? q[r - 1] + x.k : x.q + first * kGroup;
    EDGEDEC_IN_REGISTER(q[r]);
    sum[r] = x.sum + 2 * (first + r * groups);
  }
  PairF isum[R];
  D::template sums<F, R>(w, s, q, sum, isum);
  for (int r = 0; r < R; ++r) {
    const size_t at = first + r * groups;
    const __m256 total = _mm256_set1_ps(x.total[at]), xscale = _mm256_set1_ps(x.scale[at]);
    PairF xsum = {total, total};
    if constexpr (kHalves<F> && F::kMin) xsum = floats(times_sums(s.mins, sum[r]));
    if constexpr (!kHalves<F> && F::kOffset != 0 && !kSigned<F, D>) {
      const __m256 offset = _mm256_set1_ps(F::kOffset);
      isum[r] = {_mm256_fnmadd_ps(offset, total, isum[r].a), _mm256_fnmadd_ps(offset, total, isum[r].b)};
    }
    acc[r].a = step<F>(isum[r].a, s.scale.a, s.minus_min.a, xsum.a, xscale, acc[r].a);
    acc[r].b = step<F>(isum[r].b, s.scale.b, s.minus_min.b, xsum.b, xscale, acc[r].b);
  }
}

// Two groups of a record, unpacked once for many tokens. Not more of them: memory would idle while these are multiplied.
template <class F, class D>
struct Unpacked {
  __m256i quants[2][2 * kSteps];
  GroupScales scales[2];
};

template <class F, class D, int ODD>
EDGEDEC_INLINE void unpack(Unpacked<F, D>& u, const uint8_t* rec, int g) {
  const FromRecord<F, ODD, kSigned<F, D>> from{rec, g};
#pragma GCC unroll 16
  for (int i = 0; i < 2 * kSteps; ++i) u.quants[ODD][i] = from.at(i / 2, i % 2);
  u.scales[ODD] = group_scales<F, D, ODD>(rec, g);
}

// The first block: the R tokens from m on, which fill `u`. A function of its own, so that the compiler gives it all registers.
template <class F, class D, int R>
__attribute__((noinline)) void first_block(Unpacked<F, D>& u, const uint8_t* rec, int g, const Acts& acts, int m, int index,
                                           PairF* acc) {
  const Acts x = acts;
  u.scales[0] = group_scales<F, D, 0>(rec, g);
  u.scales[1] = group_scales<F, D, 1>(rec, g + 1);
  group_tokens<F, D, R>(Keeping<F, 0, kSigned<F, D>>{rec, g, u.quants[0]}, u.scales[0], x, m, index, acc);
  group_tokens<F, D, R>(Keeping<F, 1, kSigned<F, D>>{rec, g + 1, u.quants[1]}, u.scales[1], x, m, index + 1, acc);
}

// Unpacked groups for n tokens from m on in blocks of R: groups outside and blocks inside, so that addresses grow by equal
// steps, which prefetchers follow.
template <class F, class D, int R>
__attribute__((noinline)) void unpacked_blocks(const Unpacked<F, D>& u, const Acts& acts, int m, int n, int index,
                                               PairF* acc) {
  const Acts x = acts;
#pragma GCC unroll 1
  for (int g = 0; g < 2; ++g)
    for (int i = 0; i < n; i += R)
      group_tokens<F, D, R>(FromBuffer{u.quants[g]}, u.scales[g], x, m + i, index + g, acc + i);
}

// Groups g and g + 1 for more than kFew tokens in the fewest blocks, each of R or R - 1. `u` has them already unless kKeeps.
template <class F, class D, int R = kFew<F, D>>
EDGEDEC_INLINE void in_blocks(Unpacked<F, D>& u, const uint8_t* rec, int g, const Acts& x, int m, int n, int index,
                              PairF* acc) {
  const int blocks = (n + kFew<F, D> - 1) / kFew<F, D>, large = (n - blocks * (R - 1)) * R;
  if constexpr (2 * (R - 1) > kFew<F, D>)  // the fewest tokens go in two blocks
    if (large <= 0) return in_blocks<F, D, R - 1>(u, rec, g, x, m, n, index, acc);
  constexpr int kDone = kKeeps<F> ? R : 0;
  if constexpr (kDone > 0) first_block<F, D, R>(u, rec, g, x, m, index, acc);
  if (kDone < large) unpacked_blocks<F, D, R>(u, x, m + kDone, large - kDone, index, acc + kDone);
  if (large < n) unpacked_blocks<F, D, R - 1>(u, x, m + large, n - large, index, acc + large);
}

EDGEDEC_INLINE void store_columns(const PairF& acc, float* out, int columns) {
  if (columns >= kTile) {
    _mm256_storeu_ps(out, acc.a);
    _mm256_storeu_ps(out + 8, acc.b);
    return;
  }
  float all[kTile];
  _mm256_storeu_ps(all, acc.a);
  _mm256_storeu_ps(all + 8, acc.b);
  for (int c = 0; c < columns; ++c) out[c] = all[c];
}

// The class C of tile_loop.h, with the integer products of policy D.
template <class D, int FEW, int STREAMS>
struct Columns256 {
  using Sums = PairF;
  static constexpr int kStreams = STREAMS, kFew = FEW, kRowsAtOnce = 32;
  static constexpr bool kUnpacks = true;

  static EDGEDEC_INLINE Sums zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static EDGEDEC_INLINE void store(const Sums& acc, float* out, int columns) { store_columns(acc, out, columns); }

  template <class F, int ODD, int N>
  static EDGEDEC_INLINE void group(const uint8_t* rec, int g, const Acts& x, int m0, int, int index, Sums* acc) {
    const FromRecord<F, ODD, kSigned<F, D>> from{rec, g};
    group_tokens<F, D, N>(from, group_scales<F, D, ODD>(rec, g), x, m0, index, acc);
  }

  // Groups g and g + 1 for n tokens, in blocks of even size.
  template <class F>
  static EDGEDEC_INLINE void pair(const uint8_t* rec, int g, const Acts& x, int m0, int n, int index, Sums* acc) {
    Unpacked<F, D> u;
    if constexpr (!kKeeps<F>) {
      unpack<F, D, 0>(u, rec, g);
      unpack<F, D, 1>(u, rec, g + 1);
    }
    in_blocks<F, D>(u, rec, g, x, m0, n, index, acc);
  }
};

template <class F, class D>
constexpr TilesFn tiles = best_tile_loop<F, Columns256<D, kFew<F, D>, 1>, Columns256<D, kFew<F, D>, kStreams>>;

}  // namespace
}  // namespace edgedec::quant_linear
