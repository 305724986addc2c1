// The first step of attention: head norms, rotation, and the writes into the cache.
#pragma once

#include "simd/norm16.h"
#include "tree_attention/elements.h"
#include "tree_attention/int8_rows.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

template <class V>
EDGEDEC_INLINE void head_norm(const float* x, const float* weight, float* y, size_t dim, float epsilon) {
  const V factor = inverse_rms<V>(x, dim, epsilon);
  for (size_t i = 0; i < dim; i += kLanes)
    V::mul(V::mul(V::load(x + i), factor), V::load(weight + i)).store(y + i);
}

// Plain operations per element: the compiler may reorder them without changing bits.
EDGEDEC_INLINE void rotate(const float* x, const float* rotary, float* y, size_t dim, bool interleaved, float scale) {
  const size_t half = dim / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : half;
  for (size_t i = 0; i < half; ++i) {
    const float a = x[i * step], b = x[i * step + other], c = rotary[i], s = rotary[half + i];
    y[i * step] = (a * c - b * s) * scale;
    y[i * step + other] = (a * s + b * c) * scale;
  }
}

// The norm of a value, which has no weight.
template <class V>
EDGEDEC_INLINE void value_norm(const float* x, float* y, size_t dim, float epsilon) {
  const V factor = inverse_rms<V>(x, dim, epsilon);
  for (size_t i = 0; i < dim; i += kLanes) V::mul(V::load(x + i), factor).store(y + i);
}

// One head through norm and rotation. y may not be x.
template <class V>
void turn_head(const Config& config, const float* x, const float* rotary, const float* norm, float scale, float* y) {
  if (!norm) return rotate(x, rotary, y, config.dim, config.interleaved, scale);
  head_norm<V>(x, norm, y, config.dim, config.epsilon);
  rotate(y, rotary, y, config.dim, config.interleaved, scale);  // a pair is read before it is written
}

// Stores a key, or a value, in its row; mixes it in place for int8.
template <class V>
EDGEDEC_INLINE void store_row(const Cache& cache, float* x, uint16_t* row, size_t group, size_t dim) {
  if (!cache.int8) return Halves::store<V>(x, row, dim);
  mix(x, dim, false);
  Int8s::store<V>(x, row, dim, group);
}

// Writes keys and values of one token, given as k and v, into their slot. room: a head.
template <class V>
void store_token(const Config& config, const Cache& cache, size_t slot, const float* k, const float* v,
                 const float* table, const float* k_norm, float* room) {
  const size_t dim = config.dim;
  for (size_t h = 0; h < config.kv_heads; ++h, k += dim, v += dim) {
    const size_t at = h * cache.head_stride + slot % cache.capacity * cache.row;
    turn_head<V>(config, k, table, k_norm, 1.0f, room);
    store_row<V>(cache, room, cache.keys + at, Int8s::kKeyGroup, dim);
    if (config.value_norm)
      value_norm<V>(v, room, dim, config.epsilon);
    else
      std::memcpy(room, v, dim * sizeof *v);
    store_row<V>(cache, room, cache.values + at, Int8s::kValueGroup, dim);
  }
}

template <class V>
void prepare(const Config& config, const Cache& cache, size_t length, const float* qkv, const float* rotary,
             const float* q_norm, const float* k_norm, float* queries, size_t m0, size_t m1) {
  const size_t dim = config.dim, heads = config.heads;
  for (size_t m = m0; m < m1; ++m) {
    const float *q = qkv + m * config.qkv_heads() * dim, *table = rotary + m * dim;
    const float *k = q + heads * dim, *v = k + config.kv_heads * dim;
    float* query = queries + m * heads * dim;
    // The token's space for queries holds its keys and values until the queries are written.
    if (!config.shared) store_token<V>(config, cache, length + m, k, v, table, k_norm, query);
    for (size_t h = 0; h < heads; ++h, q += dim, query += dim) {
      turn_head<V>(config, q, table, q_norm, config.scale, query);
      if (!cache.int8) continue;
      mix(query, dim, true);
      store_query<V>(query, dim);
    }
  }
}

}  // namespace
}  // namespace edgedec::tree_attention
