// Passes over many tokens with 512-bit registers, two tiles at a time: activations that are in all lanes then serve two
// products. With one tile every product reads its own, and a core reads no more a cycle than it multiplies. A chunk of weights
// that are slow to unpack is unpacked once for all tokens. The float steps are those of avx512_impl.h.
//
// Measured over 128 tokens, one thread of a Zen 5, weights in the cache, beside avx512_impl.h: Q4_K takes 0.92 of the time, Q8_0
// 0.75, Q6_K 0.67. Passes over 4 to 16 tokens wait for memory, and gain nothing.
#pragma once

#include <utility>

#include "quant_linear/avx512_impl.h"

namespace edgedec::quant_linear {
namespace {

// Calls f(0), f(1), .. f(N - 1). The compiler keeps arrays in registers only where it knows indices early, as it does here.
#ifdef EDGEDEC_EMULATE_AVX512
template <int N, class F>
EDGEDEC_INLINE void each(F f) {
  for (int i = 0; i < N; ++i) f(i);
}
#else
template <int... I, class F>
EDGEDEC_INLINE void each_of(std::integer_sequence<int, I...>, F& f) {
  (f(std::integral_constant<int, I>()), ...);
}
template <int N, class F>
EDGEDEC_INLINE void each(F f) {
  each_of(std::make_integer_sequence<int, N>(), f);
}
#endif
#define EDGEDEC_EACH(i) [&](int i) __attribute__((always_inline))

// Adds products with activations that are in all lanes. GCC copies sums of the intrinsic.
EDGEDEC_INLINE void add_products(__m512i& sum, __m512i w, __m512i x) {
#ifdef EDGEDEC_EMULATE_AVX512
  sum = _mm512_dpbusd_epi32(sum, w, x);
#else
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
#endif
}

// A group of a pair of tiles of F, straight from records.
template <class F, int ODD>
struct FromRecord {
  const uint8_t* rec;  // of the first tile
  size_t tile;         // bytes from one to the other
  int g;
  EDGEDEC_INLINE __m512i quants(int t, int s) const { return unpack<F, ODD>(rec + t * tile, g, s); }
  EDGEDEC_INLINE GroupScales scales(int t) const { return group_scales<F, ODD>(rec + t * tile, g); }
};

// Group `index` of two tiles for N tokens from m0; sums and accumulators are [N][2].
template <class F, int N>
class PairGroup {
 public:
  EDGEDEC_INLINE PairGroup(const Acts& x, int offset, int m0, int index)
      : x_(x), offset_(offset), groups_(static_cast<unsigned>(x.k) / kGroup), first_(m0 * groups_ + index) {
    for (int m = 0; m < N; ++m) {
      q_[m] = m ? q_[m - 1] + x.k : x.q + first_ * kGroup;
      EDGEDEC_IN_REGISTER(q_[m]);
    }
  }

  // Adds the group to the accumulators.
  template <class W>
  EDGEDEC_INLINE void add(const W& weights, __m512* acc) const {
    const GroupScales scales[2] = {weights.scales(0), weights.scales(1)};
    constexpr int kHalf = kSteps / 2;
    __m512i sum[2 * N];
    __m512 half[2 * N];
    begin(0, sum);
    add_steps<0, kHalf>(weights, sum);
    if constexpr (kHalves<F>) {
      each<2 * N>(EDGEDEC_EACH(i) { half[i] = first_half(sum[i], scales[i % 2]); });
      begin(1, sum);
    }
    add_steps<kHalf, kSteps>(weights, sum);
    each<2 * N>(EDGEDEC_EACH(i) {
      const GroupScales& s = scales[i % 2];
      const __m512 isum = kHalves<F> ? both_halves(sum[i], s, half[i]) : _mm512_cvtepi32_ps(sum[i]);
      acc[i] = step<F>(isum, s, x_, first_ + i / 2 * groups_, acc[i]);
    });
  }

 private:
  // Where the sums of a half begin; of both, where halves have no scales of their own.
  EDGEDEC_INLINE void begin(int half, __m512i* sum) const {
    each<N>(EDGEDEC_EACH(m) {
      const int32_t* of_x = x_.sum + 2 * (first_ + m * groups_);
      sum[2 * m] = sum[2 * m + 1] = _mm512_set1_epi32(-offset_ * (kHalves<F> ? of_x[half] : of_x[0] + of_x[1]));
    });
  }

  // Adds the products of steps [FROM, TO).
  template <int FROM, int TO, class W>
  EDGEDEC_INLINE void add_steps(const W& weights, __m512i* sum) const {
    each<TO - FROM>(EDGEDEC_EACH(i) {
      const int s = FROM + i;
      const __m512i a = weights.quants(0, s), b = weights.quants(1, s);
      each<N>(EDGEDEC_EACH(m) {
        int32_t four;
        __builtin_memcpy(&four, q_[m] + 4 * s, 4);
        const __m512i x = _mm512_set1_epi32(four);
        add_products(sum[2 * m], a, x);
        add_products(sum[2 * m + 1], b, x);
      });
    });
  }

  const Acts& x_;
  const int offset_;             // of the quants
  const size_t groups_, first_;  // of a token; the index of this one for the first token
  const int8_t* q_[N] = {};
};

// The most tokens at a time. Twice as many sums are in registers, beside accumulators and the sums of first halves.
template <class F>
constexpr int kPairTokens = kHalves<F> ? 6 : 8;

// Whether tokens read unpacked chunks: where a shift and a mask do not make quants of bits.
template <class F>
constexpr bool kChunks = kLookup<F> || F::kHi != 0;
constexpr int kChunkGroups = 16;  // that are unpacked at a time: they stay in the first-level cache

// Quants and scales of groups of a pair of tiles.
struct Chunk {
  alignas(64) uint8_t quants[kChunkGroups][kSteps][2][64];
  GroupScales scales[kChunkGroups][2];
};
struct FromChunk {
  const Chunk& chunk;
  int g;
  EDGEDEC_INLINE __m512i quants(int t, int s) const { return load(chunk.quants[g][s][t]); }
  EDGEDEC_INLINE GroupScales scales(int t) const { return chunk.scales[g][t]; }
};

template <class W>
EDGEDEC_INLINE void unpack_group(const W& from, int at, Chunk* chunk) {
  each<2>(EDGEDEC_EACH(t) {
    each<kSteps>(EDGEDEC_EACH(s) { _mm512_store_si512(chunk->quants[at][s][t], from.quants(t, s)); });
    chunk->scales[at][t] = from.scales(t);
  });
}

// Calls add(group, weights) for the groups [first, first + count) of tiles `tile` and `tile` + 1; they begin with a record.
template <class F, class G>
EDGEDEC_INLINE void for_groups_of_pair(const Weight& w, int tile, int first, int count, const G& add) {
  constexpr int kGroups = F::kRecord / kGroup;
  const Ahead<F> ahead(w, tile, 2);
  const uint8_t* rec = w.data + ahead.tile * tile + static_cast<size_t>(first / kGroups) * F::kBytes;
  for (int at = first; at < first + count; rec += F::kBytes)
    for (int g = 0; g < kGroups; g += 2, at += 2) {
      for (int t = 0; t < 2; ++t) ahead(rec + g / 2 * ahead.kPair, t);
      add(at, FromRecord<F, 0>{rec, ahead.tile, g});
      add(at + 1, FromRecord<F, 1>{rec, ahead.tile, g + 1});
    }
}

// A format for all those with the same products, so that they share their code.
template <class F>
using Alike = std::conditional_t<kHalves<F>, Q6_K, std::conditional_t<F::kMin, Q4_K, Q8_0>>;

// Adds a chunk of `count` groups from group `index` on for N tokens from m0. The accumulators lie in `out` between chunks.
// columns: those of the second tile that are there.
template <class F, int N>
__attribute__((noinline)) void add_chunk(const Chunk& chunk, int count, int index, int offset, const Acts& acts, int m0,
                                         int columns, float* out, size_t ldo) {
  const Acts x = acts;
  const auto at = [&](int i) { return out + i / 2 * ldo + i % 2 * kTile; };
  const auto there = [&](int i) { return static_cast<__mmask16>(i % 2 && columns < kTile ? (1u << columns) - 1 : 0xffff); };
  __m512 acc[2 * N];
  each<2 * N>(EDGEDEC_EACH(i) { acc[i] = index ? _mm512_maskz_loadu_ps(there(i), at(i)) : _mm512_setzero_ps(); });
  for (int g = 0; g < count; ++g) PairGroup<F, N>(x, offset, m0, index + g).add(FromChunk{chunk, g}, acc);
  each<2 * N>(EDGEDEC_EACH(i) { _mm512_mask_storeu_ps(at(i), there(i), acc[i]); });
}

// Calls f with the number of tokens n as a constant.
template <class F, int N = kPairTokens<F>, class G>
EDGEDEC_INLINE void as_constant(int n, const G& f) {
  if (n == N)
    f(std::integral_constant<int, N>());
  else if constexpr (N > kPairTokens<F> - kPairTokens<F> / 4)  // even parts of many tokens are not smaller
    as_constant<F, N - 1>(n, f);
}

// Tiles `tile` and `tile` + 1 for many tokens, in chunks.
template <class F>
void chunked_rows(const Weight& w, const Acts& x, int tile, int m0, int m1, float* out, size_t ldo) {
  Chunk chunk;
  const int groups = w.records() * (F::kRecord / kGroup), columns = w.rows - (tile + 1) * kTile;
  for (int index = 0; index < groups; index += kChunkGroups) {
    const int count = std::min(kChunkGroups, groups - index);
    for_groups_of_pair<F>(w, tile, index, count, [&](int at, const auto& weights) __attribute__((always_inline)) {
      unpack_group(weights, at - index, &chunk);
    });
    for (int m = m0, n; m < m1; m += n) {
      n = even_part(m1 - m, kPairTokens<F>);
      float* rows = out + static_cast<size_t>(m - m0) * ldo;
      as_constant<F>(n, [&](auto tokens) {
        add_chunk<Alike<F>, tokens>(chunk, count, index, F::kOffset, x, m, columns, rows, ldo);
      });
    }
  }
}

// The same for N tokens from m0, straight from records.
template <class F, int N>
__attribute__((noinline)) void pair_rows(const Weight& w, const Acts& acts, int tile, int m0, float* out, size_t ldo) {
  const Acts x = acts;
  __m512 acc[2 * N];
  each<2 * N>(EDGEDEC_EACH(i) { acc[i] = _mm512_setzero_ps(); });
  const int groups = w.records() * (F::kRecord / kGroup);
  for_groups_of_pair<F>(w, tile, 0, groups, [&](int at, const auto& weights) __attribute__((always_inline)) {
    PairGroup<F, N>(x, F::kOffset, m0, at).add(weights, acc);
  });
  for (int i = 0; i < 2 * N; ++i)
    store_columns(acc[i], out + i / 2 * ldo + i % 2 * kTile, w.rows - (tile + i % 2) * kTile);
}

// Pairs of tiles for many tokens; few tokens and a lone tile go by vnni_tiles.
template <class F>
void pairs_or_few(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (; m1 - m0 >= kManyTokens && tile1 - tile0 > 1; tile0 += 2, out += 2 * kTile) {
    if constexpr (kChunks<F>) {
      chunked_rows<F>(w, x, tile0, m0, m1, out, ldo);
    } else {
      for (int m = m0, n; m < m1; m += n) {
        n = even_part(m1 - m, kPairTokens<F>);
        float* rows = out + static_cast<size_t>(m - m0) * ldo;
        as_constant<F>(n, [&](auto tokens) { pair_rows<F, tokens>(w, x, tile0, m, rows, ldo); });
      }
    }
  }
  if (tile0 < tile1) vnni_tiles<F>(w, x, m0, m1, tile0, tile1, out, ldo);
}
#undef EDGEDEC_EACH

}  // namespace
}  // namespace edgedec::quant_linear
