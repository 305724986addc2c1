// The steps of attention for one block, shared by the rows.
#pragma once

#include "common/isa.h"
#include "simd/math16.h"
#include "tree_attention/int8_steps.h"
#include "tree_attention/prepare.h"
#include "tree_attention/tiles.h"

namespace edgedec::tree_attention {
namespace {

template <class V, class E>
void score_as(const Config& config, const Cache& cache, const Block& b, const float* queries, size_t i0, size_t i1) {
  const float* query[kMostQueries];
  for (size_t q = 0; q < b.queries(); ++q) query[q] = queries + head_at(config, b, q);
  const uint16_t* keys = cache.keys + kv_at(config, cache, b);
  for_all_runs(b, cache, i0, i1, [&](size_t q, size_t count, size_t row, size_t n, float* const* at) {
    score_run<V, E>(query + q, count, keys + row * cache.row, config.dim, n, at);
  });
}

template <class V>
void score(const Config& config, const Cache& cache, const Block& b, const float* queries, size_t i0, size_t i1) {
  const auto as = cache.int8 ? score_int8<V> : converts_beside() ? score_as<V, Halves> : score_as<V, SlowHalves>;
  as(config, cache, b, queries, i0, i1);
}

// scores -> exp(score - max), in place; returns their sum. The row has room up to a multiple of sixteen. A sink, unless null, is
// one more score, the last one of the sum.
template <class V>
EDGEDEC_INLINE float exponentials(float* scores, size_t n, const float* sink) {
  const size_t padded = (n + kLanes - 1) / kLanes * kLanes;
  for (size_t j = n; j < padded; ++j) scores[j] = -__builtin_inff();  // its exponential is 0
  V top = V::load(scores);
  for (size_t j = kLanes; j < padded; j += kLanes) top = V::max(top, V::load(scores + j));
  top = V::broadcast(V::reduce_max(top));
  if (sink) top = V::max(top, V::broadcast(*sink));
  V sum = V::broadcast(0.0f);
  for (size_t j = 0; j < padded; j += kLanes) {
    const V p = exp(V::sub(V::load(scores + j), top));
    p.store(scores + j);
    sum = V::add(sum, p);
  }
  if (!sink) return V::reduce_add(sum);
  float of_sink[kLanes];
  exp(V::sub(V::broadcast(*sink), top)).store(of_sink);
  return V::reduce_add(sum) + of_sink[0];
}

template <class V>
void weigh(const Config& config, const Block& b, size_t q0, size_t q1) {
  for (size_t q = q0; q < q1; ++q) {
    const Path& path = b.paths[q / b.heads()];
    float* scores = b.scores + q * b.stride;
    if (config.softcap > 0.0f) softcap_all<V>(scores, path.end - path.first, config.softcap);
    b.sums[q] = exponentials<V>(scores, path.end - path.first, b.sinks ? b.sinks + q % b.heads() : nullptr);
  }
}

template <class V, class E>
void gather_as(const Config& config, const Cache& cache, const Block& b, float* out, size_t c0, size_t c1) {
  float* to[kMostQueries];
  for (size_t q = 0; q < b.queries(); ++q) {
    to[q] = out + head_at(config, b, q);
    for (size_t c = c0; c < c1; c += kLanes) V::broadcast(0.0f).store(to[q] + c);
  }
  const uint16_t* values = cache.values + kv_at(config, cache, b);
  for_all_runs(b, cache, 0, SIZE_MAX, [&](size_t q, size_t count, size_t row, size_t n, float* const* at) {
    value_run<V, E>(at, count, values + row * cache.row, config.dim, n, to + q, c0, c1);
  });
  for (size_t q = 0; q < b.queries(); ++q)
    for (size_t c = c0; c < c1; c += kLanes)
      V::div(V::load(to[q] + c), V::broadcast(b.sums[q])).store(to[q] + c);
}

template <class V>
void gather(const Config& config, const Cache& cache, const Block& b, float* out, size_t c0, size_t c1) {
  const auto as = cache.int8 ? gather_int8<V> : converts_beside() ? gather_as<V, Halves> : gather_as<V, SlowHalves>;
  as(config, cache, b, out, c0, c1);
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, prepare<V>, score<V>, weigh<V>, gather<V>};
}

}  // namespace
}  // namespace edgedec::tree_attention
