// The two inner loops of attention over a run of consecutive cache slots: scores, and the weighted sum of values.
//
// Both take several query vectors that read the same keys, so that a key or value is read and widened once for up to
// six of them. A tile keeps V::kAccumulators sums in registers. Tiles decide which sums run side by side, never the
// order of the operations inside one.
//
// Keys and values are prefetched: the hardware's prefetchers stop at the end of a 4 KiB page, and do not see that
// strips of a block of values lead to the next block. Measured on Zen 3, 8,000 tokens beyond the caches, one token, one
// core: 17 to 25 % less time. A prefetch past the end of the cache is harmless.
#pragma once

#include "tree_attention/elements.h"

namespace edgedec::tree_attention {
namespace {

constexpr int kTileQueries = 6;
constexpr size_t kValueBlock = 32;     // values that stay in L1 while the tiles of a block pass over them
constexpr size_t kAhead = 4096;        // bytes between the key in use and the prefetched one
constexpr size_t kLine = 32;           // elements to prefetch at a time: fp16 numbers in a cache line

// The other side of a tile with `queries` rows: the greatest power of two that fits the accumulators.
constexpr int across(int accumulators, int queries) {
  int n = 1;
  while (2 * n * queries <= accumulators) n *= 2;
  return n;
}

// Queries of the next tile: tiles of nearly equal size, not a full one and a small rest.
EDGEDEC_INLINE size_t tile_size(size_t left) {
  if (left >= 2 * kTileQueries) return kTileQueries;
  return left > kTileQueries ? (left + 1) / 2 : left;
}

// sums[q][first + j] = the sixteen lanes of <query[q], keys[j]> for K keys.
template <class V, class E, int Q, int K>
EDGEDEC_INLINE void dot_tile(const float* const* query, const uint16_t* keys, size_t dim, V (*sums)[kLanes],
                             size_t first) {
  const size_t row = E::row(dim);
  V acc[Q][K];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) acc[q][j] = V::broadcast(0.0f);
  for (size_t c = 0; c < dim; c += kLanes) {
    V key[K];
    if (c % kLine == 0)
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) __builtin_prefetch(E::at(keys + static_cast<size_t>(j) * row, c) + kAhead);
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) key[j] = E::template load<V>(keys + static_cast<size_t>(j) * row, dim, c);
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const V x = V::load(query[q] + c);
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) acc[q][j] = V::fma(x, key[j], acc[q][j]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) sums[q][first + static_cast<size_t>(j)] = acc[q][j];
}

// scores[q][j] = <query[q], keys[j]> for n <= 16 keys.
template <class V, class E, int Q>
void score_tile(const float* const* query, const uint16_t* keys, size_t dim, size_t n, float* const* scores) {
  constexpr int K = across(V::kAccumulators, Q);
  V sums[Q][kLanes];
  size_t j = 0;
  for (; j + K <= n; j += K) dot_tile<V, E, Q, K>(query, keys + j * E::row(dim), dim, sums, j);
  for (; j < n; ++j) dot_tile<V, E, Q, 1>(query, keys + j * E::row(dim), dim, sums, j);
  for (; j < kLanes; ++j)
    for (int q = 0; q < Q; ++q) sums[q][j] = V::broadcast(0.0f);
  for (int q = 0; q < Q; ++q) {
    const V total = V::reduce_add_each(sums[q]);
    n == kLanes ? total.store(scores[q]) : total.store_partial(scores[q], n);
  }
}

// out[q] += weights[q][j] * values[j], j ascending, for D * 16 of the elements.
template <class V, class E, int Q, int D>
EDGEDEC_INLINE void sum_tile(const float* const* weights, const uint16_t* values, size_t dim, size_t n,
                             float* const* out, size_t c) {
  const size_t row = E::row(dim);
  V acc[Q][D];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int i = 0; i < D; ++i) acc[q][i] = V::load(out[q] + c + static_cast<size_t>(i) * kLanes);
  for (size_t j = 0; j < n; ++j) {
    V value[D];
    if (c % kLine == 0)
#pragma GCC unroll 8
      for (int i = 0; i < D; i += 2) __builtin_prefetch(E::at(values + (j + kValueBlock) * row, c + i * kLanes));
#pragma GCC unroll 8
    for (int i = 0; i < D; ++i)
      value[i] = E::template load<V>(values + j * row, dim, c + static_cast<size_t>(i) * kLanes);
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
    for (int i = 0; i < D; ++i) acc[q][i].store(out[q] + c + static_cast<size_t>(i) * kLanes);
}

// Elements [c0, c1) of the sums.
template <class V, class E, int Q>
void value_tile(const float* const* weights, const uint16_t* values, size_t dim, size_t n, float* const* out, size_t c0,
                size_t c1) {
  constexpr int D = across(V::kAccumulators, Q);
  size_t c = c0;
  for (; c + D * kLanes <= c1; c += D * kLanes) sum_tile<V, E, Q, D>(weights, values, dim, n, out, c);
  for (; c < c1; c += kLanes) sum_tile<V, E, Q, 1>(weights, values, dim, n, out, c);
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

// scores[q][j] = <query[q], keys[j]> for all queries and n keys in consecutive rows.
template <class V, class E>
void score_run(const float* const* query, size_t queries, const uint16_t* keys, size_t dim, size_t n,
               float* const* scores) {
  for (size_t j = 0; j < n; j += kLanes) {
    const size_t count = n - j < kLanes ? n - j : kLanes;
    for (size_t q = 0, size; q < queries; q += size) {
      size = tile_size(queries - q);
      float* at[kTileQueries];
      for (size_t i = 0; i < size; ++i) at[i] = scores[q + i] + j;
#define CALL(Q) score_tile<V, E, Q>(query + q, keys + j * E::row(dim), dim, count, at)
      EDGEDEC_BY_QUERIES(size, CALL)
#undef CALL
    }
  }
}

// out[q] += sum over j of weights[q][j] * values[j] for n values in consecutive rows, elements [c0, c1).
template <class V, class E>
void value_run(const float* const* weights, size_t queries, const uint16_t* values, size_t dim, size_t n,
               float* const* out, size_t c0, size_t c1) {
  for (size_t j = 0; j < n; j += kValueBlock) {
    const size_t count = n - j < kValueBlock ? n - j : kValueBlock;
    for (size_t q = 0, size; q < queries; q += size) {
      size = tile_size(queries - q);
      const float* at[kTileQueries];
      for (size_t i = 0; i < size; ++i) at[i] = weights[q + i] + j;
#define CALL(Q) value_tile<V, E, Q>(at, values + j * E::row(dim), dim, count, out + q, c0, c1)
      EDGEDEC_BY_QUERIES(size, CALL)
#undef CALL
    }
  }
}
#undef EDGEDEC_BY_QUERIES

}  // namespace
}  // namespace edgedec::tree_attention
