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

// The scales of one group of n rows, beside each other.
EDGEDEC_INLINE void scales_of(const uint16_t* rows, size_t row, size_t at, size_t n, uint16_t* scales) {
  for (size_t j = 0; j < n; ++j) scales[j] = rows[j * row + at];
}

EDGEDEC_INLINE byte_products::Rows byte_rows(const uint16_t* rows, size_t row, size_t element, size_t n) {
  return {reinterpret_cast<const int8_t*>(rows) + element, row * sizeof *rows, n};
}

// Adds a group's products to the scores of up to kBlock keys.
template <class V>
EDGEDEC_INLINE void add_group(const int32_t* sums, float scale, const uint16_t* key_scales, size_t n, float* scores) {
  const V factor = V::broadcast(scale);
  for (size_t j = 0; j < n; j += kLanes) {
    const V both = V::mul(V::load_f16(key_scales + j), factor);
    V::fma(V::from_ints(V::Ints::load(sums + j)), both, V::load(scores + j)).store(scores + j);
  }
}

// Scores of n <= kBlock keys in consecutive rows.
template <class V>
void score_keys(const Block& b, const float* const* query, size_t count, const uint16_t* keys, size_t row, size_t dim,
                size_t n, float* const* to) {
  alignas(64) int32_t sums[kMostQueries * kBlock];
  alignas(64) float scores[kMostQueries * kBlock];
  alignas(64) uint16_t scales[kBlock];
  const int8_t* vectors[kMostQueries];
  std::memset(scores, 0, count * sizeof *scores * kBlock);
  for (size_t g = 0, c = 0; c < dim; ++g, c += kMixed) {
    for (size_t q = 0; q < count; ++q) vectors[q] = query_group(query[q], g).bytes;
    b.bytes->scores(vectors, count, byte_rows(keys, row, c, n), dim - c < kMixed ? dim - c : kMixed, sums);
    scales_of(keys, row, dim / 2 + g, n, scales);
    for (size_t q = 0; q < count; ++q)
      add_group<V>(sums + q * kBlock, query_group(query[q], g).scale, scales, n, scores + q * kBlock);
  }
  for (size_t q = 0; q < count; ++q) std::memcpy(to[q], scores + q * kBlock, n * sizeof *scores);
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
EDGEDEC_INLINE float round_weights(const float* weights, uint8_t* rounded) {
  const float most = greatest<V>(weights, kBlock);
  if (!(most >= kLeastWeight)) {
    std::memset(rounded, 0, kBlock);
    return most == most ? 0.0f : most;
  }
  const V factor = V::broadcast(127.0f / most);
  for (size_t j = 0; j < kBlock; j += kLanes) V::to_ints(V::mul(V::load(weights + j), factor)).store_bytes(rounded + j);
  return most / 127.0f;
}

// Where the index that a run's scores begin with lies in the block of path indices from i on.
EDGEDEC_INLINE size_t offset_in(const Block& b, size_t q, const float* at, size_t i) {
  return static_cast<size_t>(at - (b.scores + q * b.stride)) + b.paths[q / b.heads()].first - i;
}

// Rounds the weights of the block from path index i on, with the scales at `scale` of rows.
template <class V>
void round_block(const Cache& cache, const Block& b, const uint16_t* values, size_t scale, size_t i, Rounded* rounded) {
  alignas(64) float weights[kMostQueries * kBlock];
  std::memset(weights, 0, b.queries() * kBlock * sizeof *weights);
  for_all_runs(b, cache, i, i + kBlock, [&](size_t q, size_t count, size_t row, size_t n, float* const* at) {
    alignas(64) uint16_t scales[kBlock];
    scales_of(values + row * cache.row, cache.row, scale, n, scales);
    const size_t offset = offset_in(b, q, at[0], i);
    for (size_t k = 0; k < count; ++k)
      for (size_t j = 0; j < n; j += kLanes) {
        const size_t lanes = n - j < kLanes ? n - j : kLanes;
        const V product = V::mul(V::load_partial(at[k] + j, lanes), V::load_f16(scales + j));
        product.store_partial(weights + (q + k) * kBlock + offset + j, lanes);
      }
  });
  for (size_t q = 0; q < b.queries(); ++q)
    rounded->factors[q] = round_weights<V>(weights + q * kBlock, rounded->weights + q * kBlock);
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
