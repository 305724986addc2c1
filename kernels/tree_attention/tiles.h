// The two inner loops of attention over a run of consecutive cache slots: scores, and the weighted sum of values.
//
// Both take several query vectors that read the same keys, so that a key or value is read once for all of them, and
// widened once for each tile of them. A tile keeps V::kTile sums in registers. Tiles decide which sums run side by
// side, never the order of the operations inside one. Where widening takes long and there are several tiles, a
// block of keys or values is widened into a buffer in L1 before (elements.h).
//
// Keys and values are prefetched: the hardware's prefetchers stop at the end of a 4 KiB page, and do not see that
// strips of a block of values lead to the next block. fp16 goes into the second-level cache, as weights do
// (quant_linear.h). Measured beyond the caches, one token, one core: 8,000 tokens on Zen 3 17 to 25 % less time; fp16,
// 12,000 tokens on Zen 4 a third less than with the first level. int8_steps.h reads int8. A prefetch past the end is harmless.
// While a widened block is used, the next ones are prefetched evenly (ahead.h).
#pragma once

#include "tree_attention/ahead.h"
#include "tree_attention/elements.h"

namespace edgedec::tree_attention {
namespace {

constexpr int kTileQueries = 6;
constexpr int kTileKeys = 8;           // at most: each has a pointer
constexpr size_t kValueBlock = 32;     // values that stay in L1 while the tiles of a block pass over them
constexpr size_t kStrip = 128;         // elements of a value that a block takes at a time
constexpr size_t kWideFloats = kValueBlock * kStrip;
constexpr size_t kLine = 32;           // elements to prefetch at a time: fp16 numbers in a cache line

// The other side of a tile with `queries` rows: the greatest power of two that fits the sums.
constexpr int across(int sums, int queries) {
  int n = 1;
  while (2 * n * queries <= sums) n *= 2;
  return n;
}

constexpr int least(int a, int b) { return a < b ? a : b; }

// Folds of keys, and vectors of a value, that a tile with `queries` rows takes at a time.
template <class V>
constexpr int folds_at_once(int queries) {
  return least(across(Registers<V>::kSums, queries * V::kFold), kTileKeys / V::kFold);
}
template <class V>
constexpr int vectors_at_once(int queries) {
  return least(across(V::kTile, queries), 8);
}

// Queries of the next tile, at most `most`: tiles of nearly equal size, not a full one and a small rest.
EDGEDEC_INLINE size_t tile_size(size_t left, size_t most) {
  if (left >= 2 * most) return most;
  return left > most ? (left + 1) / 2 : left;
}

// Folds t .. t + T - 1 of <query[q], keys[j]> over the j < n <= 16 that go into them.
template <class V, class E, int Q, int T>
EDGEDEC_INLINE void fold_tile(const float* const* query, const uint16_t* keys, size_t dim, size_t n, int t,
                              typename V::Fold (*folds)[kLanes / V::kFold], Ahead& ahead) {
  constexpr int K = T * V::kFold;
  const uint16_t* key[K];
  for (int j = 0; j < K; ++j) {
    const auto index = static_cast<size_t>(fold_index(t + j / V::kFold, j % V::kFold));
    key[j] = keys + (index < n ? index : n - 1) * E::row(dim);  // a key twice has two sums, of which one counts
  }
  using R = Registers<V>;
  using Part = typename R::Part;
  Part acc[Q][K][R::kCount];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j)
#pragma GCC unroll 2
      for (int r = 0; r < R::kCount; ++r) acc[q][j][r] = Part::broadcast(0.0f);
  const char* next = ahead.tile();
  for (size_t c = 0; c < dim; c += kLanes) {
    if constexpr (!E::kPrefetch) ahead.use(next);
    if (E::kPrefetch && c % kLine == 0)
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) __builtin_prefetch(E::at(key[j], c) + E::kAhead, 0, E::kPrefetch);
#pragma GCC unroll 2
    for (int r = 0; r < R::kCount; ++r) {
      const size_t at = c + static_cast<size_t>(r * kLanes / R::kCount);
      Part wide[K];
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) wide[j] = E::template load<Part>(key[j], at);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) {
        const Part x = Part::load(query[q] + at);
#pragma GCC unroll 8
        for (int j = 0; j < K; ++j) acc[q][j][r] = Part::fma(x, wide[j], acc[q][j][r]);
      }
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int u = 0; u < T; ++u) {
      V sums[V::kFold];
      for (int i = 0; i < V::kFold; ++i) sums[i] = R::joined(acc[q][u * V::kFold + i]);
      folds[q][t + u] = V::fold(sums);
    }
}

// scores[q][j] = <query[q], keys[j]> for n <= 16 keys.
template <class V, class E, int Q>
void score_tile(const float* const* query, const uint16_t* keys, size_t dim, size_t n, float* const* scores,
                Ahead& ahead) {
  constexpr int kFolds = kLanes / V::kFold, T = folds_at_once<V>(Q);
  typename V::Fold folds[Q][kFolds];
  for (int t = 0; t < kFolds; t += T)
    fold_tile<V, E, Q, T>(query, keys, dim, n, static_cast<size_t>(fold_index(t, 0)) < n ? t : 0, folds, ahead);
  for (int q = 0; q < Q; ++q) {
    const V total = V::unfold(folds[q]);
    n == kLanes ? total.store(scores[q]) : total.store_partial(scores[q], n);
  }
}

// out[q] += weights[q][j] * values[j], j ascending, for D * 16 of the elements, from c on in a value. `out` begins
// `shift` elements later.
template <class V, class E, int Q, int D>
EDGEDEC_INLINE void sum_tile(const float* const* weights, const uint16_t* values, size_t dim, size_t n,
                             float* const* out, size_t shift, size_t c, Ahead& ahead) {
  const size_t row = E::row(dim);
  V acc[Q][D];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int i = 0; i < D; ++i) acc[q][i] = V::load(out[q] + shift + c + static_cast<size_t>(i) * kLanes);
  const char* next = ahead.tile();
  for (size_t j = 0; j < n; ++j) {
    if constexpr (!E::kPrefetch) ahead.use(next);
    if (E::kPrefetch && c % kLine == 0)
#pragma GCC unroll 8
      for (int i = 0; i < D; i += 2) {
        __builtin_prefetch(E::at(values + (j + kValueBlock) * row, c + i * kLanes), 0, E::kPrefetch);
      }
    V value[D];
#pragma GCC unroll 8
    for (int i = 0; i < D; ++i)
      value[i] = E::template load<V>(values + j * row, c + static_cast<size_t>(i) * kLanes);
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const V weight = V::broadcast(weights[q][j]);
#pragma GCC unroll 8
      for (int i = 0; i < D; ++i) acc[q][i] = V::fma(weight, value[i], acc[q][i]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int i = 0; i < D; ++i) acc[q][i].store(out[q] + shift + c + static_cast<size_t>(i) * kLanes);
}

// Elements [c, end) of the sums, D * 16 at a time and the rest in smaller tiles.
template <class V, class E, int Q, int D>
EDGEDEC_INLINE void value_columns(const float* const* weights, const uint16_t* values, size_t dim, size_t n,
                                  float* const* out, size_t shift, size_t c, size_t end, Ahead& ahead) {
  for (; c + D * kLanes <= end; c += D * kLanes) sum_tile<V, E, Q, D>(weights, values, dim, n, out, shift, c, ahead);
  if constexpr (D > 1) value_columns<V, E, Q, D / 2>(weights, values, dim, n, out, shift, c, end, ahead);
}

template <class V, class E, int Q>
void value_tile(const float* const* weights, const uint16_t* values, size_t dim, size_t n, float* const* out,
                size_t shift, size_t c0, size_t c1, Ahead& ahead) {
  value_columns<V, E, Q, vectors_at_once<V>(Q)>(weights, values, dim, n, out, shift, c0, c1, ahead);
}

#define EDGEDEC_BY_QUERIES(n, CALL) \
  switch (n) {                      \
    case 1: CALL(1); break;         \
    case 2: CALL(2); break;         \
    case 3: CALL(3); break;         \
    case 4: CALL(4); break;         \
    case 5: CALL(5); break;         \
    default: CALL(6); break;        \
  }

// Scores of n <= 16 keys for all queries, from j on.
template <class V, class E>
EDGEDEC_INLINE void score_tiles(const float* const* query, size_t queries, const uint16_t* keys, size_t dim, size_t n,
                                float* const* scores, size_t j, Ahead ahead) {
  for (size_t q = 0, size; q < queries; q += size) {
    size = tile_size(queries - q, Registers<V>::kQueries);
    float* at[kTileQueries];
    for (size_t i = 0; i < size; ++i) at[i] = scores[q + i] + j;
#define CALL(Q) score_tile<V, E, Q>(query + q, keys, dim, n, at, ahead)
    EDGEDEC_BY_QUERIES(size, CALL)
#undef CALL
  }
}

// out[q] += sum over j of weights[q][j0 + j] * values[j] for all queries and n values.
template <class V, class E>
EDGEDEC_INLINE void value_tiles(const float* const* weights, size_t queries, const uint16_t* values, size_t dim,
                                size_t n, float* const* out, size_t shift, size_t c0, size_t c1, size_t j0,
                                Ahead ahead) {
  for (size_t q = 0, size; q < queries; q += size) {
    size = tile_size(queries - q, kTileQueries);
    const float* at[kTileQueries];
    for (size_t i = 0; i < size; ++i) at[i] = weights[q + i] + j0;
#define CALL(Q) value_tile<V, E, Q>(at, values, dim, n, out + q, shift, c0, c1, ahead)
    EDGEDEC_BY_QUERIES(size, CALL)
#undef CALL
  }
}
#undef EDGEDEC_BY_QUERIES

// Elements [c0, c1) of n rows as floats.
template <class V, class E>
EDGEDEC_INLINE void widen(const uint16_t* rows, size_t dim, size_t n, size_t c0, size_t c1, float* wide) {
  for (size_t j = 0; j < n; ++j, rows += E::row(dim), wide += c1 - c0) E::template widen<V>(rows, c0, c1, wide);
}

// Tiles of a block with so many queries.
constexpr size_t query_tiles(size_t queries, size_t most) { return (queries + most - 1) / most; }

// scores[q][j] = <query[q], keys[j]> for all queries and n keys in consecutive rows.
template <class V, class E>
void score_run(const float* const* query, size_t queries, const uint16_t* keys, size_t dim, size_t n,
               float* const* scores) {
  for (size_t j = 0; j < n; j += kLanes, keys += kLanes * E::row(dim)) {
    const size_t count = n - j < kLanes ? n - j : kLanes;
    if constexpr (E::kWorthWidening != 0) {
      if (queries >= E::kWorthWidening && kLanes * dim <= kWideFloats) {
        alignas(64) float wide[kWideFloats];
        widen<V, E>(keys, dim, count, 0, dim, wide);
        constexpr int kQueries = Registers<V>::kQueries;
        constexpr size_t kTiles = kLanes / V::kFold / folds_at_once<V>(kQueries);
        const size_t bytes = kLanes * E::row(dim) * sizeof *keys / (query_tiles(queries, kQueries) * kTiles);
        const Ahead ahead(E::at(keys, 0) + E::kKeysAhead, bytes, bytes / (dim / kLanes));
        score_tiles<V, Floats>(query, queries, Floats::rows(wide), dim, count, scores, j, ahead);
        continue;
      }
    }
    score_tiles<V, E>(query, queries, keys, dim, count, scores, j, {});
  }
}

// The sum of value_run() over n values that stay in L1, for a strip of their elements.
template <class V, class E>
EDGEDEC_INLINE void value_strip(const float* const* weights, size_t queries, const uint16_t* values, size_t dim,
                                size_t n, float* const* out, size_t c0, size_t c1, size_t j0) {
  if constexpr (E::kWorthWidening != 0) {
    if (queries >= E::kWorthWidening) {
      alignas(64) float wide[kWideFloats];
      widen<V, E>(values, dim, n, c0, c1, wide);
      constexpr size_t kColumns = vectors_at_once<V>(kTileQueries) * kLanes;
      const size_t tiles = query_tiles(queries, kTileQueries) * ((c1 - c0 + kColumns - 1) / kColumns);
      const size_t row = E::row(dim) * sizeof *values;
      const char* next = E::at(values, c0) + E::kValuesAhead / row * row;
      const auto part = static_cast<size_t>(E::at(values, c1) - E::at(values, c0));
      const Ahead ahead = c1 - c0 == dim ? Ahead(next, n * row / tiles, row / tiles) : Ahead(next, part / tiles, row);
      return value_tiles<V, Floats>(weights, queries, Floats::rows(wide), c1 - c0, n, out, c0, 0, c1 - c0, j0, ahead);
    }
  }
  value_tiles<V, E>(weights, queries, values, dim, n, out, 0, c0, c1, j0, {});
}

// out[q] += sum over j of weights[q][j] * values[j] for n values in consecutive rows, elements [c0, c1).
template <class V, class E>
void value_run(const float* const* weights, size_t queries, const uint16_t* values, size_t dim, size_t n,
               float* const* out, size_t c0, size_t c1) {
  for (size_t j = 0; j < n; j += kValueBlock, values += kValueBlock * E::row(dim)) {
    const size_t count = n - j < kValueBlock ? n - j : kValueBlock;
    for (size_t c = c0; c < c1; c += kStrip)
      value_strip<V, E>(weights, queries, values, dim, count, out, c, c1 - c < kStrip ? c1 : c + kStrip, j);
  }
}

}  // namespace
}  // namespace edgedec::tree_attention
