// The first and the last step of attention over keys and values in int8, shared by the rows: integer products of
// byte_products.h, and what is done with them in floats.
#pragma once

#include "byte_products/byte_products.h"
#include "tree_attention/int8_rows.h"
#include "tree_attention/runs.h"
#include "tree_attention/weights.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kBlock = byte_products::kMostRows;  // path indices whose weights are rounded together
static_assert(kMostQueries == byte_products::kMostVectors && Int8s::kKeyGroup == byte_products::kKeyWidth);
static_assert(Int8s::kValueGroup == byte_products::kMostWidth && kMixed == Int8s::kKeyGroup);

constexpr float kLeastWeight = 7.8886091e-31f;  // 2^-100: weights times scales below it count for nothing

// The scales of one group of up to kBlock rows as floats, zeros behind them, and whether all are numbers: those of a damaged
// file may be infinite. Integers collect them: a vector that is read from memory waits until each of its parts is there.
template <class V>
EDGEDEC_INLINE bool scales_of(const uint16_t* rows, size_t row, size_t at, size_t n, float* scales) {
  uint64_t lost = 0;
  rows += at;
  for (size_t j = 0; j < n; j += kLanes, rows += kLanes * row) {
    uint64_t fours[4] = {};
    if (j + kLanes <= n)
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; ++i) {
        const uint16_t* p = rows + 4 * i * row;
        const uint64_t low = p[0] | static_cast<uint32_t>(p[row]) << 16, high = p[2 * row] | static_cast<uint32_t>(p[3 * row]) << 16;
        fours[i] = low | high << 32;
      }
    else
      for (size_t i = 0; j + i < n; ++i) fours[i / 4] |= static_cast<uint64_t>(rows[i * row]) << i % 4 * 16;
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) lost |= (fours[i] & 0x7c007c007c007c00) + 0x0400040004000400;
    from_halves<V>(fours).store(scales + j);
  }
  return !(lost & 0x8000800080008000);
}

EDGEDEC_INLINE byte_products::Rows byte_rows(const uint16_t* rows, size_t row, size_t element, size_t n) {
  return {reinterpret_cast<const int8_t*>(rows) + element, row * sizeof *rows, n};
}

constexpr size_t kMostGroups = 2;  // of a key whose sums are there together, in L1

// Adds the products of `groups` groups, from group g on, to a query's scores of n keys. Without `begun`, they begin at 0.
template <class V>
EDGEDEC_INLINE void add_groups(const int32_t* sums, const float* scales, const float* query, size_t g, size_t groups, size_t n,
                               bool begun, float* scores) {
  for (size_t j = 0; j < n; j += kLanes) {
    const size_t lanes = n - j < kLanes ? n - j : kLanes;
    V total = begun ? V::load_partial(scores + j, lanes) : V::broadcast(0.0f);
    for (size_t i = 0; i < groups; ++i) {
      const V both = V::mul(V::load(scales + i * kBlock + j), V::broadcast(query_group(query, g + i).scale));
      total = V::fma(V::from_ints(V::Ints::load(sums + i * kMostQueries * kBlock + j)), both, total);
    }
    lanes == kLanes ? total.store(scores + j) : total.store_partial(scores + j, lanes);
  }
}

// Adds the products of `groups` groups, from group g on, to the scores of keys: through sums in memory.
template <class V>
void add_scores(const Block& b, const float* const* query, size_t count, const byte_products::Rows& keys, size_t dim, size_t g,
                size_t groups, const float* scales, float* const* to) {
  alignas(64) int32_t sums[kMostGroups * kMostQueries * kBlock];
  for (size_t i = 0; i < groups; ++i) {
    const size_t c = (g + i) * kMixed;
    byte_products::Vector vectors[kMostQueries];
    for (size_t q = 0; q < count; ++q) vectors[q] = {query_group(query[q], g + i).bytes, query_group(query[q], g + i).sum};
    b.bytes->scores(vectors, count, {keys.first + c, keys.stride, keys.count}, dim - c < kMixed ? dim - c : kMixed,
                    sums + i * kMostQueries * kBlock, kBlock);
  }
  for (size_t q = 0; q < count; ++q) add_groups<V>(sums + q * kBlock, scales, query[q], g, groups, keys.count, g != 0, to[q]);
}

// Scores of n <= kBlock keys in consecutive rows.
template <class V>
void score_keys(const Block& b, const float* const* query, size_t count, const uint16_t* keys, size_t row, size_t dim,
                size_t n, float* const* to) {
  alignas(64) float scales[kMostGroups * kBlock];
  const size_t all = groups_of(dim, kMixed);
  for (size_t g = 0, groups; g < all; g += groups) {
    groups = all - g < kMostGroups ? all - g : kMostGroups;
    for (size_t i = 0; i < groups; ++i) scales_of<V>(keys, row, dim / 2 + g + i, n, scales + i * kBlock);
    if (!b.bytes->add_scores) {
      add_scores<V>(b, query, count, byte_rows(keys, row, 0, n), dim, g, groups, scales, to);
      continue;
    }
    const QueryGroup* first[kMostQueries];
    for (size_t q = 0; q < count; ++q) first[q] = &query_group(query[q], g);
    const size_t c = g * kMixed, width = dim - c < kMostGroups * kMixed ? dim - c : kMostGroups * kMixed;
    b.bytes->add_scores(first, count, byte_rows(keys, row, c, n), width, scales, g != 0, to);
  }
}

template <class V>
void score_int8(const Config& config, const Cache& cache, const Block& b, const float* queries, size_t i0, size_t i1,
                Tops* tops) {
  const float* query[kMostQueries];
  find_heads(config, b, [&](size_t q, size_t at) { query[q] = queries + at; });
  const uint16_t* keys = cache.keys + kv_at(config, cache, b);
  for_all_runs(b, cache, i0, i1, [&](size_t q, size_t count, size_t row, size_t n, size_t, float* const* at) {
    float* to[kMostQueries];
    for (size_t j = 0; j < n; j += kBlock) {
      const size_t part = n - j < kBlock ? n - j : kBlock;
      for (size_t i = 0; i < count; ++i) to[i] = at[i] + j;
      score_keys<V>(b, query + q, count, keys + (row + j) * cache.row, cache.row, config.dim, part, to);
      if (tops) tops->raise<V>(config.softcap, q, count, to, part);
    }
  });
}

constexpr size_t kRoom = (kMostQueries + kLanes - 1) / kLanes * kLanes;

// Weights of a block of path indices, times the scales of their values, in 7 bits; those of indices that a query does not
// see are 0.
struct Rounded {
  alignas(64) uint8_t weights[kMostQueries * kBlock + 4];
  alignas(64) float factors[kRoom];  // what 1 stands for
};

// Rounds the weights of a block of all queries, times scales. Divisions of all queries are done together: each takes as long as
// sixteen.
template <class V>
EDGEDEC_INLINE void round_weights(float* const* at, size_t queries, const float* scales, Rounded* rounded) {
  constexpr size_t kVectors = kBlock / kLanes;
  alignas(64) float most[kRoom], factors[kRoom];
  V scale[kVectors];
  for (size_t v = 0; v < kVectors; ++v) scale[v] = V::load(scales + v * kLanes);
  const auto product = [&](size_t q, size_t v) { return V::mul(V::load(at[q] + v * kLanes), scale[v]); };
  for (size_t q = 0; q < queries; ++q) {
    V top = product(q, 0);
    for (size_t v = 1; v < kVectors; ++v) top = V::max(top, product(q, v));
    most[q] = V::reduce_max(top);
  }
  for (size_t q = queries; q % kLanes; ++q) most[q] = 1.0f;
  for (size_t q = 0; q < queries; q += kLanes) {
    V::div(V::broadcast(127.0f), V::load(most + q)).store(factors + q);
    V::div(V::load(most + q), V::broadcast(127.0f)).store(rounded->factors + q);
  }
  for (size_t q = 0; q < queries; ++q) {
    uint8_t* bytes = rounded->weights + q * kBlock;
    if (!(most[q] >= kLeastWeight)) {
      std::memset(bytes, 0, kBlock);
      rounded->factors[q] = 0.0f;
      continue;
    }
    const V factor = V::broadcast(factors[q]);
    typename V::Ints ints[kVectors];
    for (size_t v = 0; v < kVectors; ++v) ints[v] = V::to_ints(V::mul(product(q, v), factor));
    store_small(ints, bytes);
  }
}

// Adds sums of `width` columns to out[queries].
template <class V>
EDGEDEC_INLINE void add_sums(const int32_t* sums, const float* factors, size_t queries, size_t width, float* const* out) {
  for (size_t q = 0; q < queries; ++q, sums += byte_products::kMostWidth)
    for (size_t c = 0; c < width; c += kLanes)
      V::fma(V::from_ints(V::Ints::load(sums + c)), V::broadcast(factors[q]), V::load(out[q] + c)).store(out[q] + c);
}

// Adds the products of values of all queries to out[queries].
template <class V>
EDGEDEC_INLINE void add_products(const Block& b, const Rounded& rounded, size_t queries, const byte_products::Rows& values,
                                 size_t width, float* const* out) {
  if (b.bytes->add_values) return b.bytes->add_values(rounded.weights, rounded.factors, queries, values, width, out);
  alignas(64) int32_t sums[kMostQueries * byte_products::kMostWidth];
  std::memset(sums, 0, queries * byte_products::kMostWidth * sizeof *sums);
  b.bytes->values(rounded.weights, queries, values, width, sums);
  add_sums<V>(sums, rounded.factors, queries, width, out);
}

// Weights of a block that runs bring one after the other.
struct Placed {
  alignas(64) float weights[kMostQueries * kBlock];
  bool any = false, lost[kMostQueries] = {};  // whether a query sees a value that is NaN

  // Adds n weights of queries, times the scales of their values, from `offset` on in the block.
  template <class V>
  EDGEDEC_INLINE void add(size_t q, size_t count, float* const* at, const uint16_t* row, size_t stride, size_t scale, size_t n,
                          size_t offset, size_t queries) {
    if (!any) std::memset(weights, 0, queries * kBlock * sizeof *weights);
    any = true;
    alignas(64) float scales[kBlock];
    const bool whole = scales_of<V>(row, stride, scale, n, scales);
    for (size_t k = 0; k < count; ++k) {
      float* to = weights + (q + k) * kBlock + offset;
      for (size_t j = 0; j < n; j += kLanes) {
        const size_t lanes = n - j < kLanes ? n - j : kLanes;
        V::mul(V::load_partial(at[k] + j, lanes), V::load(scales + j)).store_partial(to + j, lanes);
      }
      lost[q + k] |= !whole;
    }
  }

  template <class V>
  EDGEDEC_INLINE void round(size_t queries, Rounded* rounded) {
    float* at[kMostQueries];
    for (size_t q = 0; q < queries; ++q) at[q] = weights + q * kBlock;
    alignas(64) float ones[kBlock];
    for (float& one : ones) one = 1.0f;
    round_weights<V>(at, queries, ones, rounded);
    for (size_t q = 0; q < queries; ++q)
      if (lost[q]) rounded->factors[q] = __builtin_nanf("");
  }
};

// Adds the values of a block that is one run of all queries, from `row` on: elements [c0, c1) of one group.
template <class V>
EDGEDEC_INLINE void add_run(const Cache& cache, const Block& b, const uint16_t* row, size_t scale, float* const* at, size_t c0,
                            size_t c1, float* const* out) {
  const size_t queries = b.queries();
  Rounded rounded;
  alignas(64) float scales[kBlock];
  const bool whole = scales_of<V>(row, cache.row, scale, kBlock, scales);
  round_weights<V>(at, queries, scales, &rounded);
  float* to[kMostQueries];
  for (size_t q = 0; q < queries; ++q) {
    to[q] = out[q] + c0;
    if (!whole) rounded.factors[q] = __builtin_nanf("");  // a value is
  }
  add_products<V>(b, rounded, queries, byte_rows(row, cache.row, c0, kBlock), c1 - c0, to);
}

// Adds the values of the block from path index i on, elements [c0, c1) of one group, to out[queries].
template <class V>
void add_values(const Config& config, const Cache& cache, const Block& b, const uint16_t* values, size_t i, size_t c0,
                size_t c1, float* const* out) {
  const size_t queries = b.queries(), scale = config.dim / 2 + c0 / Int8s::kValueGroup;
  Placed placed;
  bool alone = false;
  for_all_runs(b, cache, i, i + kBlock, [&](size_t q, size_t count, size_t row, size_t n, size_t index, float* const* at) {
    const uint16_t* first = values + row * cache.row;
    alone = n == kBlock && count == queries;
    if (alone) return add_run<V>(cache, b, first, scale, at, c0, c1, out);
    placed.add<V>(q, count, at, first, cache.row, scale, n, index - i, queries);
  });
  if (alone) return;
  Rounded rounded;
  placed.round<V>(queries, &rounded);
  alignas(64) int32_t sums[kMostQueries * byte_products::kMostWidth] = {};
  for_all_runs(b, cache, i, i + kBlock, [&](size_t q, size_t count, size_t row, size_t n, size_t index, float* const*) {
    const auto rows = byte_rows(values + row * cache.row, cache.row, c0, n);
    const uint8_t* weights = rounded.weights + q * kBlock + (index - i);
    b.bytes->values(weights, count, rows, c1 - c0, sums + q * byte_products::kMostWidth);
  });
  float* to[kMostQueries];
  for (size_t q = 0; q < queries; ++q) to[q] = out[q] + c0;
  add_sums<V>(sums, rounded.factors, queries, c1 - c0, to);
}

// Adds the values of the block of path indices [i, i + kBlock). c0 is a multiple of kMixed, and c1 too, or the end of the head.
template <class V>
void add_int8(const Config& config, const Cache& cache, const Block& b, size_t i, size_t, size_t c0, size_t c1,
              float* const* out) {
  constexpr size_t kGroup = Int8s::kValueGroup;
  const uint16_t* values = cache.values + kv_at(config, cache, b);
  for (size_t c = c0, next; c < c1; c = next) {
    next = (c / kGroup + 1) * kGroup < c1 ? (c / kGroup + 1) * kGroup : c1;
    add_values<V>(config, cache, b, values, i, c, next, out);
  }
}

}  // namespace
}  // namespace edgedec::tree_attention
