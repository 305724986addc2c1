// The first step of attention: head norms, rotation, and the writes into the cache.
#pragma once

#include "simd/norm16.h"
#include "tree_attention/elements.h"
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

// Writes keys and values of one token, given as k and v, into their slot. room: a head.
template <class V, class E>
void store_token(const Config& config, const Cache& cache, size_t slot, const float* k, const float* v,
                 const float* table, const float* k_norm, float* room) {
  const size_t dim = config.dim;
  for (size_t h = 0; h < config.kv_heads; ++h, k += dim, v += dim) {
    const size_t at = h * cache.head_stride + slot % cache.capacity * cache.row;
    turn_head<V>(config, k, table, k_norm, 1.0f, room);
    E::template store<V>(room, cache.keys + at, dim);
    if (config.value_norm) value_norm<V>(v, room, dim, config.epsilon);
    E::template store<V>(config.value_norm ? room : v, cache.values + at, dim);
  }
}

template <class V, class E>
void prepare_as(const Config& config, const Cache& cache, size_t length, const float* qkv, const float* rotary,
                const float* q_norm, const float* k_norm, float* queries, size_t m0, size_t m1) {
  const size_t dim = config.dim, heads = config.heads;
  for (size_t m = m0; m < m1; ++m) {
    const float *q = qkv + m * config.qkv_heads() * dim, *table = rotary + m * dim;
    const float *k = q + heads * dim, *v = k + config.kv_heads * dim;
    float* query = queries + m * heads * dim;
    // The token's space for queries holds its rotated keys until the queries are written.
    if (!config.shared) store_token<V, E>(config, cache, length + m, k, v, table, k_norm, query);
    for (size_t h = 0; h < heads; ++h)
      turn_head<V>(config, q + h * dim, table, q_norm, config.scale, query + h * dim);
  }
}

template <class V>
void prepare(const Config& config, const Cache& cache, size_t length, const float* qkv, const float* rotary,
             const float* q_norm, const float* k_norm, float* queries, size_t m0, size_t m1) {
  const auto as = cache.int8 ? prepare_as<V, Int8s> : prepare_as<V, Halves>;
  as(config, cache, length, qkv, rotary, q_norm, k_norm, queries, m0, m1);
}

}  // namespace
}  // namespace edgedec::tree_attention
