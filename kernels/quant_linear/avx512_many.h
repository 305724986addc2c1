// Passes over many tokens with 512-bit registers. A chunk of a few tiles is unpacked once for all tokens, then multiplied by
// eight of them at a time, so that each register of quants or activations that is read serves two products or more. The
// sums of some tokens become floats among the products of the next ones: products keep the ports busy that also multiply
// floats, and a core does not look far enough ahead to mix them itself. The float steps are those of avx512_impl.h.
//
// Measured over 128 tokens, one thread of a Zen 5, weights in the cache, beside avx512_impl.h: Q5_0 0.68 of the time, Q8_0
// 0.76, Q6_K 0.71; Q4_K 0.98, so formats with minima, which are unpacked easily, stay there.
#pragma once

#include <utility>

#include "quant_linear/avx512_impl.h"

namespace edgedec::quant_linear {
namespace {

// Tiles whose sums stay in registers, two parts of a block at a time.
template <class F>
constexpr int kManyTiles = kHalves<F> ? 2 : 3;
constexpr int kBlockTokens = 8;   // a part of them is four
constexpr int kChunkGroups = 16;  // that are unpacked at a time: they stay in the first-level cache

// Calls f(0), f(1), .. f(N - 1). The compiler keeps arrays in registers only where it knows indices early, as it does here.
#ifdef EDGEDEC_EMULATE_AVX512
#define EDGEDEC_READ_ONCE(number)
template <int N, class F>
EDGEDEC_INLINE void each(F f) {
  for (int i = 0; i < N; ++i) f(i);
}
#else
// Reads a number that is in all lanes once for all tiles.
#define EDGEDEC_READ_ONCE(number) __asm__("" : "+v"(number))
template <int... I, class F>
EDGEDEC_INLINE void each_of(std::integer_sequence<int, I...>, F& f) {
  (f(std::integral_constant<int, I>()), ...);
}
template <int N, class F>
EDGEDEC_INLINE void each(F f) {
  each_of(std::make_integer_sequence<int, N>(), f);
}
#endif
#define EDGEDEC_EACH [&](int i) __attribute__((always_inline))

// Quants and scales of a chunk of T tiles.
template <int T>
struct Chunk {
  alignas(64) uint8_t quants[kChunkGroups][kSteps][T][64];
  GroupScales scales[kChunkGroups][T];
};

template <class F, int ODD, int T>
EDGEDEC_INLINE void unpack_group(const uint8_t* rec, int g, int at, int t, Chunk<T>* chunk) {
  each<kSteps>(EDGEDEC_EACH {
    const __m512i quants = unpack<F, ODD>(rec, g, i);
    _mm512_store_si512(chunk->quants[at][i][t], quants);
  });
  chunk->scales[at][t] = group_scales<F, ODD>(rec, g);
}

// Groups [first, first + count) of T tiles. Chunks begin with a record.
template <class F, int T>
void unpack_chunk(const Weight& w, int tile, int first, int count, Chunk<T>* chunk) {
  constexpr int kGroups = F::kRecord / kGroup;
  for (int t = 0; t < T; ++t) {
    const uint8_t* rec = w.data + w.tile_bytes() * (tile + t) + static_cast<size_t>(first / kGroups) * F::kBytes;
    for (int at = 0; at < count; rec += F::kBytes)
      for (int g = 0; g < kGroups; g += 2, at += 2) {
        prefetch_pair<F>(rec, g);
        unpack_group<F, 0>(rec, g, at, t, chunk);
        unpack_group<F, 1>(rec, g + 1, at + 1, t, chunk);
      }
  }
}

// A format for all those with the same products, so that they share their code.
template <class F>
using Alike = std::conditional_t<kHalves<F>, Q6_K, Q8_0>;

// A block of tokens on its way over a chunk of T tiles. Its parts have so many tokens that the sums of two fit the registers.
template <class F, int T>
class ManyBlock {
 public:
  ManyBlock(const Acts& x, const Chunk<T>& chunk, int m0, int index, float* acc)
      : x_(x), chunk_(chunk), groups_(static_cast<unsigned>(x.k) / kGroup), first_(m0 * groups_ + index), acc_(acc) {
    EDGEDEC_IN_REGISTER(acc_);  // or the compiler would keep some accumulators in registers, which it needs
  }

  // Adds `count` groups.
  EDGEDEC_INLINE void add(int count, int offset) {
    begin_all(count, offset);
    Part part[2];
    add_part<0, false>(0, part[0], part[1]);
    add_part<1, true>(0, part[1], part[0]);
    for (int g = 1; g < count; ++g) {
      add_part<0, true>(g, part[0], part[1]);
      add_part<1, true>(g, part[1], part[0]);
    }
    each<kTokens>(EDGEDEC_EACH { finish<1>(count - 1, i, part[1]); });
  }

 private:
  static constexpr int kTokens = kBlockTokens / 2, kSums = kTokens * T;
  static constexpr int kBegins = kHalves<F> ? 2 : 1;  // of a group
  struct Part {
    __m512i sum[kSums];
    __m512 first[kSums];  // of the first halves of a group
  };

  // Where sums begin: what the offset of the quants adds, with the other sign.
  EDGEDEC_INLINE void begin_all(int count, int offset) {
    for (int m = 0; m < kBlockTokens; ++m)
      for (int g = 0; g < count; g += 8) {
        const size_t at = first_ + m * groups_ + g;
        int32_t* to = begins_[m] + g * kBegins;
        if constexpr (kHalves<F>) {
          _mm512_storeu_si512(to, _mm512_mullo_epi32(load(x_.sum + 2 * at), _mm512_set1_epi32(-offset)));
        } else {
          const __m256 all = _mm256_mul_ps(_mm256_loadu_ps(x_.total + at), _mm256_set1_ps(static_cast<float>(-offset)));
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtps_epi32(all));
        }
      }
  }
  EDGEDEC_INLINE void begin(int m, int at, __m512i* sum) const {
    each<kSums>(EDGEDEC_EACH { sum[i] = _mm512_set1_epi32(begins_[m + i / T][at]); });
  }

  // Group g for part P. Meanwhile the sums of the part before become floats.
  template <int P, bool BEFORE>
  EDGEDEC_INLINE void add_part(int g, Part& now, const Part& before) {
    constexpr int kFirst = P * kTokens;
    const int8_t* q[kTokens];
    for (int m = 0; m < kTokens; ++m) {
      q[m] = m ? q[m - 1] + x_.k : x_.q + (first_ + kFirst * groups_ + g) * kGroup;
      EDGEDEC_IN_REGISTER(q[m]);
    }
    begin(kFirst, g * kBegins, now.sum);
    each<kSteps>([&](int s) __attribute__((always_inline)) {
      if (kHalves<F> && s == kSteps / 2) {
        each<kSums>(EDGEDEC_EACH { now.first[i] = first_half(now.sum[i], chunk_.scales[g][i % T]); });
        begin(kFirst, g * kBegins + 1, now.sum);
      }
      add_step(chunk_.quants[g][s], q, 4 * s, now.sum);
      if (BEFORE && s % 2) finish<1 - P>(P ? g : g - 1, s / 2, before);
    });
  }

  static EDGEDEC_INLINE void add_step(const uint8_t (*quants)[64], const int8_t* const* q, int at, __m512i* sum) {
    __m512i w[T];
    each<T>(EDGEDEC_EACH { w[i] = _mm512_load_si512(quants[i]); });
    each<kTokens>([&](int m) __attribute__((always_inline)) {
      int32_t four;
      __builtin_memcpy(&four, q[m] + at, 4);
      __m512i x = _mm512_set1_epi32(four);
      EDGEDEC_READ_ONCE(x);
      each<T>(EDGEDEC_EACH { sum[m * T + i] = _mm512_dpbusd_epi32(sum[m * T + i], w[i], x); });
    });
  }

  // Adds the sums of token m of part P and group g to its accumulators.
  template <int P>
  EDGEDEC_INLINE void finish(int g, int m, const Part& part) {
    __m512 scale = _mm512_set1_ps(x_.scale[first_ + (P * kTokens + m) * groups_ + g]);
    EDGEDEC_READ_ONCE(scale);
    each<T>(EDGEDEC_EACH {
      const int n = m * T + i;
      const GroupScales& scales = chunk_.scales[g][i];
      float* at = acc_ + (P * kSums + n) * kTile;
      const __m512 sum = kHalves<F> ? both_halves(part.sum[n], scales, part.first[n]) : _mm512_cvtepi32_ps(part.sum[n]);
      _mm512_store_ps(at, _mm512_fmadd_ps(_mm512_mul_ps(sum, scales.scale), scale, _mm512_load_ps(at)));
    });
  }

  const Acts& x_;
  const Chunk<T>& chunk_;
  const size_t groups_, first_;  // of a token; the index of the chunk's first one, for the first token
  float* acc_;                   // [kBlockTokens][T][16]
  int32_t begins_[kBlockTokens][2 * kChunkGroups];
};

EDGEDEC_INLINE __mmask16 there(int columns) { return columns >= kTile ? 0xffff : (1u << columns) - 1; }

// Adds a chunk of `count` groups from group `index` on to `blocks` blocks of tokens from m0. The accumulators lie in `out`
// between chunks. columns: those of the last tile that are there.
template <class F, int T>
__attribute__((noinline)) void add_chunk(const Chunk<T>& chunk, int count, int index, int offset, const Acts& x, int m0,
                                         int blocks, int columns, float* out, size_t ldo) {
  alignas(64) float acc[kBlockTokens * T * kTile];
  for (int b = 0; b < blocks; ++b, m0 += kBlockTokens, out += kBlockTokens * ldo) {
    const auto for_all = [&](auto each) {
      for (int m = 0; m < kBlockTokens; ++m)
        for (int t = 0; t < T; ++t)
          each(acc + (m * T + t) * kTile, out + m * ldo + t * kTile, there(t + 1 < T ? kTile : columns));
    };
    for_all([&](float* to, const float* from, __mmask16 mask) {
      _mm512_store_ps(to, index ? _mm512_maskz_loadu_ps(mask, from) : _mm512_setzero_ps());
    });
    ManyBlock<F, T>(x, chunk, m0, index, acc).add(count, offset);
    for_all([&](const float* from, float* to, __mmask16 mask) { _mm512_mask_storeu_ps(to, mask, _mm512_load_ps(from)); });
  }
}

// The T tiles from `tile` on for whole blocks of tokens.
template <class F, int T>
void many_tokens(const Weight& w, const Acts& x, int m0, int m1, int tile, int, float* out, size_t ldo) {
  Chunk<T> chunk;
  const int groups = w.records() * (F::kRecord / kGroup), columns = w.rows - (tile + T - 1) * kTile;
  for (int index = 0; index < groups; index += kChunkGroups) {
    const int count = std::min(kChunkGroups, groups - index);
    unpack_chunk<F, T>(w, tile, index, count, &chunk);
    add_chunk<Alike<F>, T>(chunk, count, index, F::kOffset, x, m0, (m1 - m0) / kBlockTokens, columns, out, ldo);
  }
}

// Whole blocks of many tokens, some tiles at a time; other tokens, a lone tile and formats with minima as few tokens are.
template <class F>
void many_or_few(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  int end = m0;  // of whole blocks
  if constexpr (!F::kMin) {
    constexpr int kMost = kManyTiles<F>;
    if (m1 - m0 >= kManyTokens) end = m1 - (m1 - m0) % kBlockTokens;
    for (int tile = tile0, tiles; tile < tile1 && m0 < end; tile += tiles) {
      tiles = even_part(tile1 - tile, kMost);
      const TilesFn some = tiles == kMost ? many_tokens<F, kMost> : tiles == 2 ? many_tokens<F, 2> : vnni_tiles<F>;
      some(w, x, m0, end, tile, tile + tiles, out + (tile - tile0) * kTile, ldo);
    }
  }
  if (end < m1) vnni_tiles<F>(w, x, end, m1, tile0, tile1, out + static_cast<size_t>(end - m0) * ldo, ldo);
}
#undef EDGEDEC_EACH
#undef EDGEDEC_READ_ONCE

}  // namespace
}  // namespace edgedec::quant_linear
