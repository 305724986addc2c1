// The keys of all tokens of a block, as runs of consecutive rows of the cache.
#pragma once

#include "tree_attention/paths.h"

namespace edgedec::tree_attention {
namespace {

// Calls step(first query, queries, row, n, index, at) for every run of keys with path indices in [i0, i1), ascending for each
// query: a token's keys before the common part, the common part once for all tokens, a token's keys after it. index: that of
// the run's first key; at[i]: the scores of its keys.
template <class F>
EDGEDEC_INLINE void for_all_runs(const Block& b, const Cache& cache, size_t i0, size_t i1, F step) {
  const size_t heads = b.heads();
  const auto part = [&](size_t token, size_t tokens, size_t first, size_t end) {
    if (first < i0) first = i0;
    if (end > i1) end = i1;
    if (first >= end) return;
    for_runs(b.paths[token], cache.capacity, first, end, [&](size_t row, size_t index, size_t n) {
      float* at[kMostQueries];
      float* scores = b.scores + token * heads * b.stride;
      for (size_t t = 0, i = 0; t < tokens; ++t)
        for (size_t h = 0; h < heads; ++h, scores += b.stride) at[i++] = scores + (index - b.paths[token + t].first);
      step(token * heads, tokens * heads, row, n, index, at);
    });
  };
  const bool shared = b.common_first < b.common_end;
  for (size_t t = 0; t < b.tokens && shared; ++t) part(t, 1, b.paths[t].first, b.common_first);
  if (shared) part(0, b.tokens, b.common_first, b.common_end);
  for (size_t t = 0; t < b.tokens; ++t) part(t, 1, shared ? b.common_end : b.paths[t].first, b.paths[t].end);
}

// Calls found(q, at) with where the head of each query of a block begins in [*, heads * dim].
template <class F>
EDGEDEC_INLINE void find_heads(const Config& config, const Block& b, F found) {
  for (size_t t = 0, q = 0; t < b.tokens; ++t)
    for (size_t h = b.h0; h < b.h1; ++h) found(q++, ((b.m0 + t) * config.heads + h) * config.dim);
}

struct Span {
  size_t first, end;
};

// The path indices of all tokens of a block.
EDGEDEC_INLINE Span span_of(const Block& b) {
  Span span = {SIZE_MAX, 0};
  for (size_t t = 0; t < b.tokens; ++t) {
    span.first = b.paths[t].first < span.first ? b.paths[t].first : span.first;
    span.end = b.paths[t].end > span.end ? b.paths[t].end : span.end;
  }
  return span;
}

// Where the keys or values of a block's heads begin.
EDGEDEC_INLINE size_t kv_at(const Config& config, const Cache& cache, const Block& b) {
  return b.h0 / (config.heads / config.kv_heads) * cache.head_stride;
}

}  // namespace
}  // namespace edgedec::tree_attention
