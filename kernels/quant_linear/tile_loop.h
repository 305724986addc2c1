// The loops around a row's arithmetic, shared by all rows but the scalar one.
#pragma once

#include <type_traits>

#include "common/isa.h"
#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {
namespace {

// Prefetches weights of tiles that are read in turns, a pair of groups of each. Several streams keep more requests to memory
// open, so that a core that multiplies waits less. Measured on a Xeon with AMX (4.1 GHz, 159 ns to memory), one thread, 200
// MB of weights of 1,536 inputs, beside one tile after the other and prefetch_pair(): over four tokens four streams take 0.82
// of the time in Q4_K and Q6_K, 0.87 in Q4_1, 0.95 in Q8_0 (AVX-512 VNNI), 0.78 and 0.81 in the first two with AVX-VNNI, 0.82
// and 0.84 with AVX2; over one 0.77 to 0.99. Two to five pairs ahead differ little; four are a record of 256 inputs, so that
// also formats which keep bits of a quant in two places find both. Into the second-level cache only, 5 % are lost.
template <class F>
struct Ahead {
  static constexpr int kPair = F::kBytes * 2 * kGroup / F::kRecord, kPairs = 4;
  const uint8_t* end;  // of the first tile
  size_t tile, skip;   // bytes of a tile, and of those between the ends of this block of tiles' first and last

  Ahead(const Weight& w, int first, int tiles)
      : end(w.data + w.tile_bytes() * (first + 1)), tile(w.tile_bytes()), skip(tile * (tiles - 1)) {}

  // For the pair of groups that starts at `pair` of the first tile and what follows it in tile `stream` of the block.
  EDGEDEC_INLINE void operator()(const uint8_t* pair, int stream) const {
    const uint8_t* p = pair + kPairs * kPair;
    p += tile * stream + (p < end ? 0 : skip);
    for (int i = 0; i < kPair; i += 64) __builtin_prefetch(p + i, 0, 3);
  }
};

// Adds groups g and g + 1 of a record for n tokens from m0.
template <class F, class C, int N>
EDGEDEC_INLINE void add_pair(const uint8_t* rec, int g, const Acts& x, int m0, int n, int index, typename C::Sums* acc) {
  if constexpr (N == 0 && C::kUnpacks) {
    C::template pair<F>(rec, g, x, m0, n, index, acc);
  } else {
    C::template group<F, 0, N>(rec, g, x, m0, n, index, acc);
    C::template group<F, 1, N>(rec, g + 1, x, m0, n, index + 1, acc);
  }
}

// Computes tiles [tile, tile + tiles), at most C::kStreams, for n tokens from m0. C handles sixteen columns of one token:
//   C::Sums                     accumulators, with C::zero() and C::store(sums, out, columns)
//   C::kStreams                 tiles that are read in turns; 1: one after the other
//   C::kFew                     the most tokens, at least one, for which the number is a template argument
//   C::kRowsAtOnce              the most tokens for which a tile streams by once; their float sums fit the first-level cache
//   C::group<F, ODD, N>(...)    adds group g of a record; ODD: its parity. N: the number of tokens up to kFew, so that
//                               accumulators stay in registers, else 0
//   C::kUnpacks                 whether more than kFew tokens go by C::pair<F>(...) instead, two groups at a time
template <class F, class C, int N>
void tile_rows(const Weight& w, const Acts& x, int tile, int tiles, int m0, int n, float* out, size_t ldo) {
  constexpr int kGroups = F::kRecord / kGroup;
  constexpr bool kStreams = C::kStreams > 1;
  const int count = N ? N : n, streams = kStreams ? tiles : 1;
  typename C::Sums acc[C::kStreams][N ? N : C::kRowsAtOnce];
  for (int s = 0; s < streams; ++s)
    for (int m = 0; m < count; ++m) acc[s][m] = C::zero();
  const uint8_t* rec = w.data + w.tile_bytes() * tile;
  const Ahead<F> ahead(w, tile, tiles);
  const int records = w.records();
  for (int r = 0; r < records; ++r, rec += F::kBytes)
    for (int g = 0; g < kGroups; g += 2) {
      const int index = r * kGroups + g;
      if constexpr (!kStreams) prefetch_pair<F>(rec, g);
      for (int s = 0; s < streams; ++s) {
        if constexpr (kStreams) ahead(rec + g / 2 * ahead.kPair, s);
        if constexpr (kStreams && N > 0) {
          typename C::Sums here[N];  // in registers for the pair
          for (int m = 0; m < N; ++m) here[m] = acc[s][m];
          add_pair<F, C, N>(rec + s * ahead.tile, g, x, m0, n, index, here);
          for (int m = 0; m < N; ++m) acc[s][m] = here[m];
        } else {
          add_pair<F, C, N>(rec + s * ahead.tile, g, x, m0, n, index, acc[s]);
        }
      }
    }
  for (int s = 0; s < streams; ++s)
    for (int m = 0; m < count; ++m)
      C::store(acc[s][m], out + m * ldo + s * kTile, w.rows - (tile + s) * kTile);
}

template <class F, class C, int N = C::kFew>
void tile_rows_of(const Weight& w, const Acts& x, int tile, int tiles, int m0, int n, float* out, size_t ldo) {
  if constexpr (N == 0 && C::kFew < C::kRowsAtOnce)
    tile_rows<F, C, 0>(w, x, tile, tiles, m0, n, out, ldo);
  else if (n == N)
    tile_rows<F, C, N>(w, x, tile, tiles, m0, n, out, ldo);
  else if constexpr (N > 0)
    tile_rows_of<F, C, N - 1>(w, x, tile, tiles, m0, n, out, ldo);
}

// The next part of `left` tokens or tiles, at most `most`. Parts are of even size: a lone last token would cost as much as
// four, and a lone tile is read slowly.
EDGEDEC_INLINE int even_part(int left, int most) {
  const int parts = (left + most - 1) / most;
  return (left + parts - 1) / parts;
}

// Tiles in turns where C::kStreams says so.
template <class F, class C>
void tile_loop(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (int tile = tile0, tiles; tile < tile1; tile += tiles) {
    tiles = even_part(tile1 - tile, C::kStreams);
    for (int m = m0, n; m < m1; m += n) {
      n = even_part(m1 - m, C::kRowsAtOnce);
      tile_rows_of<F, C>(w, x, tile, tiles, m, n, out + static_cast<size_t>(m - m0) * ldo + (tile - tile0) * kTile, ldo);
    }
  }
}

// The loop that suits this CPU: ONE tile after the other, or MANY in turns. EDGEDEC_STREAMS, 0 or 1, answers for the CPU that
// compiles the library for itself; the other loop, half of the code, is then left out.
template <class F, class ONE, class MANY>
void best_tile_loop(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
#ifdef EDGEDEC_STREAMS
  tile_loop<F, std::conditional_t<EDGEDEC_STREAMS, MANY, ONE>>(w, x, m0, m1, tile0, tile1, out, ldo);
#else
  const TilesFn loop = likes_streams() ? tile_loop<F, MANY> : tile_loop<F, ONE>;
  loop(w, x, m0, m1, tile0, tile1, out, ldo);
#endif
}

}  // namespace
}  // namespace edgedec::quant_linear
