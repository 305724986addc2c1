// The first and the last step of attention over keys and values in int8, shared by the rows: integer products of
// byte_products.h, and what is done with them in floats.
#pragma once

#include "byte_products/byte_products.h"
#include "tree_attention/int8_rows.h"
#include "tree_attention/runs.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kBlock = byte_products::kMostRows;  // path indices whose weights are rounded together
static_assert(kMostQueries == byte_products::kMostVectors && Int8s::kKeyGroup == byte_products::kKeyWidth);
static_assert(Int8s::kValueGroup == byte_products::kMostWidth && kMixed == Int8s::kKeyGroup);

constexpr float kLeastWeight = 7.8886091e-31f;  // 2^-100: weights times scales below it count for nothing

// The scales of one group of up to kBlock rows as floats, zeros behind them, and whether all are numbers: those of a damaged
// file may be infinite.
template <class V>
EDGEDEC_INLINE bool scales_of(const uint16_t* rows, size_t row, size_t at, size_t n, float* scales) {
  alignas(64) uint16_t halves[kBlock];
  uint16_t lost = 0;
  for (size_t j = 0; j < n; ++j) {
    halves[j] = rows[j * row + at];
    lost |= (halves[j] & 0x7c00) == 0x7c00;
  }
  for (size_t j = n; j % kLanes; ++j) halves[j] = 0;
  for (size_t j = 0; j < n; j += kLanes) V::load_f16(halves + j).store(scales + j);
  return !lost;
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

// Scores of n <= kBlock keys in consecutive rows.
template <class V>
void score_keys(const Block& b, const float* const* query, size_t count, const uint16_t* keys, size_t row, size_t dim,
                size_t n, float* const* to) {
  alignas(64) int32_t sums[kMostGroups * kMostQueries * kBlock];
  alignas(64) float scales[kMostGroups * kBlock];
  const size_t all = groups_of(dim, kMixed);
  for (size_t g = 0, groups; g < all; g += groups) {
    groups = all - g < kMostGroups ? all - g : kMostGroups;
    for (size_t i = 0; i < groups; ++i) {
      const size_t c = (g + i) * kMixed;
      byte_products::Vector vectors[kMostQueries];
      for (size_t q = 0; q < count; ++q) vectors[q] = {query_group(query[q], g + i).bytes, query_group(query[q], g + i).sum};
      b.bytes->scores(vectors, count, byte_rows(keys, row, c, n), dim - c < kMixed ? dim - c : kMixed,
                      sums + i * kMostQueries * kBlock, kBlock);
      scales_of<V>(keys, row, dim / 2 + g + i, n, scales + i * kBlock);
    }
    for (size_t q = 0; q < count; ++q) add_groups<V>(sums + q * kBlock, scales, query[q], g, groups, n, g != 0, to[q]);
  }
}

template <class V>
void score_int8(const Config& config, const Cache& cache, const Block& b, const float* queries, size_t i0, size_t i1) {
  const float* query[kMostQueries];
  for (size_t q = 0; q < b.queries(); ++q) query[q] = queries + head_at(config, b, q);
  const uint16_t* keys = cache.keys + kv_at(config, cache, b);
  for_all_runs(b, cache, i0, i1, [&](size_t q, size_t count, size_t row, size_t n, float* const* at) {
    float* to[kMostQueries];
    for (size_t j = 0; j < n; j += kBlock) {
      for (size_t i = 0; i < count; ++i) to[i] = at[i] + j;
      score_keys<V>(b, query + q, count, keys + (row + j) * cache.row, cache.row, config.dim, n - j < kBlock ? n - j : kBlock, to);
    }
  });
}

// Weights of a block of path indices, times the scales of their values, in 7 bits; those of indices that a query does not
// see are 0.
struct Rounded {
  alignas(64) uint8_t weights[kMostQueries * kBlock + 4];
  float factors[kMostQueries];  // what 1 stands for
};

// Rounds the weights of one query.
template <class V>
EDGEDEC_INLINE float round_weights(const V* weights, uint8_t* rounded) {
  constexpr size_t kVectors = kBlock / kLanes;
  V top = weights[0];
  for (size_t i = 1; i < kVectors; ++i) top = V::max(top, weights[i]);
  const float most = V::reduce_max(top);
  if (!(most >= kLeastWeight)) {
    std::memset(rounded, 0, kBlock);
    return 0.0f;
  }
  const V factor = V::broadcast(127.0f / most);
  for (size_t i = 0; i < kVectors; ++i) V::to_ints(V::mul(weights[i], factor)).store_bytes(rounded + i * kLanes);
  return most / 127.0f;
}

// Where the index that a run's scores begin with lies in the block of path indices from i on.
EDGEDEC_INLINE size_t offset_in(const Block& b, size_t q, const float* at, size_t i) {
  return static_cast<size_t>(at - (b.scores + q * b.stride)) + b.paths[q / b.heads()].first - i;
}

// Adds n weights of a query, times the scales of their values, to those of its block.
template <class V>
EDGEDEC_INLINE void place(const float* at, const float* scales, size_t n, float* weights) {
  for (size_t j = 0; j < n; j += kLanes) {
    const size_t lanes = n - j < kLanes ? n - j : kLanes;
    V::mul(V::load_partial(at + j, lanes), V::load(scales + j)).store_partial(weights + j, lanes);
  }
}

// Rounds the weights of the block from path index i on, with the scales at `scale` of rows. Where a query sees a value that
// is NaN, its factor is.
template <class V>
void round_block(const Cache& cache, const Block& b, const uint16_t* values, size_t scale, size_t i, Rounded* rounded) {
  constexpr size_t kVectors = kBlock / kLanes;
  alignas(64) float weights[kMostQueries * kBlock], scales[kBlock];
  bool parts = false, lost[kMostQueries] = {};
  for_all_runs(b, cache, i, i + kBlock, [&](size_t q, size_t count, size_t row, size_t n, float* const* at) {
    const bool whole = scales_of<V>(values + row * cache.row, cache.row, scale, n, scales);
    for (size_t k = 0; k < count && !whole; ++k) lost[q + k] = true;
    if (n == kBlock && count == b.queries()) {  // the only run
      for (size_t k = 0; k < count; ++k) {
        V product[kVectors];
        for (size_t v = 0; v < kVectors; ++v) product[v] = V::mul(V::load(at[k] + v * kLanes), V::load(scales + v * kLanes));
        rounded->factors[k] = round_weights<V>(product, rounded->weights + k * kBlock);
      }
      return;
    }
    if (!parts) std::memset(weights, 0, b.queries() * kBlock * sizeof *weights);
    parts = true;
    const size_t offset = offset_in(b, q, at[0], i);
    for (size_t k = 0; k < count; ++k) place<V>(at[k], scales, n, weights + (q + k) * kBlock + offset);
  });
  for (size_t q = 0; q < b.queries(); ++q) {
    V found[kVectors];
    for (size_t v = 0; v < kVectors && parts; ++v) found[v] = V::load(weights + q * kBlock + v * kLanes);
    if (parts) rounded->factors[q] = round_weights<V>(found, rounded->weights + q * kBlock);
    if (lost[q]) rounded->factors[q] = __builtin_nanf("");
  }
}

// Adds the values of the block from path index i on, elements [c0, c1) of one group, to out[queries].
template <class V>
void add_values(const Config& config, const Cache& cache, const Block& b, const uint16_t* values, size_t i, size_t c0,
                size_t c1, float* const* out) {
  Rounded rounded;
  alignas(64) int32_t sums[kMostQueries * byte_products::kMostWidth];
  round_block<V>(cache, b, values, config.dim / 2 + c0 / Int8s::kValueGroup, i, &rounded);
  std::memset(sums, 0, b.queries() * byte_products::kMostWidth * sizeof *sums);
  for_all_runs(b, cache, i, i + kBlock, [&](size_t q, size_t count, size_t row, size_t n, float* const* at) {
    const uint8_t* weights = rounded.weights + q * kBlock + offset_in(b, q, at[0], i);
    const auto rows = byte_rows(values + row * cache.row, cache.row, c0, n);
    b.bytes->values(weights, count, rows, c1 - c0, sums + q * byte_products::kMostWidth);
  });
  for (size_t q = 0; q < b.queries(); ++q) {
    const V factor = V::broadcast(rounded.factors[q]);
    const int32_t* sum = sums + q * byte_products::kMostWidth;
    for (size_t c = c0; c < c1; c += kLanes, sum += kLanes)
      V::fma(V::from_ints(V::Ints::load(sum)), factor, V::load(out[q] + c)).store(out[q] + c);
  }
}

// c0 is a multiple of kMixed, and c1 too, or the end of the head.
template <class V>
void gather_int8(const Config& config, const Cache& cache, const Block& b, float* out, size_t c0, size_t c1) {
  constexpr size_t kGroup = Int8s::kValueGroup;
  float* to[kMostQueries];
  size_t first = SIZE_MAX, end = 0;
  for (size_t q = 0; q < b.queries(); ++q) {
    to[q] = out + head_at(config, b, q);
    for (size_t c = c0; c < c1; c += kLanes) V::broadcast(0.0f).store(to[q] + c);
    const Path& path = b.paths[q / b.heads()];
    first = path.first < first ? path.first : first, end = path.end > end ? path.end : end;
  }
  const uint16_t* values = cache.values + kv_at(config, cache, b);
  for (size_t i = first / kBlock * kBlock; i < end; i += kBlock)
    for (size_t c = c0, next; c < c1; c = next) {
      next = (c / kGroup + 1) * kGroup < c1 ? (c / kGroup + 1) * kGroup : c1;
      add_values<V>(config, cache, b, values, i, c, next, to);
    }
  for (size_t q = 0; q < b.queries(); ++q) {
    for (size_t c = c0; c < c1; c += kLanes) V::div(V::load(to[q] + c), V::broadcast(b.sums[q])).store(to[q] + c);
    mix(to[q] + c0, c1 - c0, true);
  }
}

}  // namespace
}  // namespace edgedec::tree_attention
