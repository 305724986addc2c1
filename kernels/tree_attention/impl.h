// The steps of attention for one block, shared by the rows.
#pragma once

#include "common/isa.h"
#include "tree_attention/int8_steps.h"
#include "tree_attention/prepare.h"
#include "tree_attention/tiles.h"
#include "tree_attention/weights.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kChunk = 128;  // keys whose scores are still near when their greatest is sought, and values whose weights are

template <class V, class E>
void score_as(const Config& config, const Cache& cache, const Block& b, const float* queries, size_t i0, size_t i1,
              Tops* tops) {
  const float* query[kMostQueries];
  find_heads(config, b, [&](size_t q, size_t at) { query[q] = queries + at; });
  const uint16_t* keys = cache.keys + kv_at(config, cache, b);
  for_all_runs(b, cache, i0, i1, [&](size_t q, size_t count, size_t row, size_t n, size_t, float* const* at) {
    const uint16_t* first = keys + row * cache.row;
    if (!tops) return score_run<V, E>(query + q, count, first, config.dim, n, at);
    float* to[kMostQueries];
    for (size_t j = 0; j < n; j += kChunk) {
      const size_t part = n - j < kChunk ? n - j : kChunk;
      for (size_t i = 0; i < count; ++i) to[i] = at[i] + j;
      score_run<V, E>(query + q, count, first + j * cache.row, config.dim, part, to);
      tops->raise<V>(config.softcap, q, count, to, part);
    }
  });
}

template <class V>
void score_any(const Config& config, const Cache& cache, const Block& b, const float* queries, size_t i0, size_t i1,
               Tops* tops) {
  const auto as = cache.int8 ? score_int8<V> : converts_beside() ? score_as<V, Halves> : score_as<V, SlowHalves>;
  as(config, cache, b, queries, i0, i1, tops);
}

template <class V>
void score(const Config& config, const Cache& cache, const Block& b, const float* queries, size_t i0, size_t i1) {
  score_any<V>(config, cache, b, queries, i0, i1, nullptr);
}

template <class V>
void weigh(const Config& config, const Block& b, size_t q0, size_t q1) {
  for (size_t q = q0; q < q1; ++q) {
    const Path& path = b.paths[q / b.heads()];
    float* scores = b.scores + q * b.stride;
    const size_t n = path.end - path.first;
    Tops tops;
    tops.raise<V>(config.softcap, 0, 1, &scores, n);
    const float *sink = b.sinks ? b.sinks + q % b.heads() : nullptr, top = tops.of<V>(0, sink);
    pad(scores, n);
    b.sums[q] = sum_of<V>(exponentials<V>(scores, 0, n, top, V::broadcast(0.0f)), sink, top);
  }
}

// Adds the values of path indices [i0, i1), elements [c0, c1).
template <class V, class E>
void add_as(const Config& config, const Cache& cache, const Block& b, size_t i0, size_t i1, size_t c0, size_t c1,
            float* const* out) {
  const uint16_t* values = cache.values + kv_at(config, cache, b);
  for_all_runs(b, cache, i0, i1, [&](size_t q, size_t count, size_t row, size_t n, size_t, float* const* at) {
    value_run<V, E>(at, count, values + row * cache.row, config.dim, n, out + q, c0, c1);
  });
}

// Adds the values of all path indices. Calls before(i) when it goes on to those below i.
template <class V, class F>
EDGEDEC_INLINE void gather_after(const Config& config, const Cache& cache, const Block& b, float* out, size_t c0, size_t c1,
                                 size_t chunk, F before) {
  float* to[kMostQueries];
  find_heads(config, b, [&](size_t q, size_t at) { to[q] = out + at; });
  for (size_t q = 0; q < b.queries(); ++q)
    for (size_t c = c0; c < c1; c += kLanes) V::broadcast(0.0f).store(to[q] + c);
  const auto add = cache.int8 ? add_int8<V> : converts_beside() ? add_as<V, Halves> : add_as<V, SlowHalves>;
  const Span span = span_of(b);
  for (size_t i = span.first / chunk * chunk; i < span.end; i += chunk) {
    before(i + chunk);
    add(config, cache, b, i, i + chunk, c0, c1, to);
  }
  before(SIZE_MAX);
  for (size_t q = 0; q < b.queries(); ++q) {
    for (size_t c = c0; c < c1; c += kLanes) V::div(V::load(to[q] + c), V::broadcast(b.sums[q])).store(to[q] + c);
    if (cache.int8) mix(to[q] + c0, c1 - c0, true);
  }
}

template <class V>
void gather(const Config& config, const Cache& cache, const Block& b, float* out, size_t c0, size_t c1) {
  gather_after<V>(config, cache, b, out, c0, c1, cache.int8 ? kBlock : size_t{1} << 20, [](size_t) {});
}

template <class V>
void attend_all(const Config& config, const Cache& cache, const Block& b, const float* queries, float* out) {
  Tops tops;
  score_any<V>(config, cache, b, queries, 0, SIZE_MAX, &tops);
  Weighing<V> weighing(b, tops);
  gather_after<V>(config, cache, b, out, 0, config.dim, cache.int8 ? kBlock : kChunk, [&](size_t i) { weighing.until(i); });
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, prepare<V>, score<V>, weigh<V>, gather<V>, attend_all<V>};
}

}  // namespace
}  // namespace edgedec::tree_attention
