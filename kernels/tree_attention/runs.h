// The keys of all tokens of a block, as runs of consecutive rows of the cache.
#pragma once

#include "tree_attention/paths.h"

namespace edgedec::tree_attention {
namespace {

// Calls step(first query, queries, row, n, at) for every run of keys with path indices in [i0, i1), ascending for each
// query: a token's keys before the common part, the common part once for all tokens, a token's keys after it. at[i]:
// the scores of the run's keys.
template <class F>
EDGEDEC_INLINE void for_all_runs(const Block& b, const Cache& cache, size_t i0, size_t i1, F step) {
  const size_t heads = b.heads();
  const auto part = [&](size_t token, size_t tokens, size_t first, size_t end) {
    if (first < i0) first = i0;
    if (end > i1) end = i1;
    if (first >= end) return;
    for_runs(b.paths[token], cache.capacity, first, end, [&](size_t row, size_t index, size_t n) {
      float* at[kMostQueries];
      for (size_t q = token * heads, i = 0; i < tokens * heads; ++q, ++i)
        at[i] = b.scores + q * b.stride + (index - b.paths[q / heads].first);
      step(token * heads, tokens * heads, row, n, at);
    });
  };
  const bool shared = b.common_first < b.common_end;
  for (size_t t = 0; t < b.tokens && shared; ++t) part(t, 1, b.paths[t].first, b.common_first);
  if (shared) part(0, b.tokens, b.common_first, b.common_end);
  for (size_t t = 0; t < b.tokens; ++t) part(t, 1, shared ? b.common_end : b.paths[t].first, b.paths[t].end);
}

// Where the head of query q of a block begins in [*, heads * dim].
EDGEDEC_INLINE size_t head_at(const Config& config, const Block& b, size_t q) {
  return ((b.m0 + q / b.heads()) * config.heads + b.h0 + q % b.heads()) * config.dim;
}

// Where the keys or values of a block's heads begin.
EDGEDEC_INLINE size_t kv_at(const Config& config, const Cache& cache, const Block& b) {
  return b.h0 / (config.heads / config.kv_heads) * cache.head_stride;
}

}  // namespace
}  // namespace edgedec::tree_attention
