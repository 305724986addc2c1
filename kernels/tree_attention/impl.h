// Phase two, shared by the rows: blocks of tokens whose queries read the same keys.
#pragma once

#include "common/math16.h"
#include "tree_attention/paths.h"
#include "tree_attention/prepare.h"
#include "tree_attention/tiles.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kMostQueries = 24;  // as block_tokens() promises

// Tokens times heads of one kv head. Query q belongs to token q / heads.
struct Block {
  const Config& config;
  size_t length, tokens, heads;
  size_t common_first, common_end;  // path indices that all tokens share; empty when first >= end
  Path paths[kMostQueries];
  const float* query[kMostQueries];
  float* scores[kMostQueries];  // scores[q][index - first of the token's path]
  float* out[kMostQueries];
};

// Calls step(first query, queries, slot, n, at) for every run of keys, for each query in ascending order: what a token
// has before the common part, the common part once for all, what it has behind. at[i]: the scores of the run's keys.
template <class F>
EDGEDEC_INLINE void for_all_runs(const Block& b, F step) {
  const auto part = [&](size_t token, size_t tokens, size_t first, size_t end) {
    for_runs(b.paths[token], b.length, first, end, [&](size_t slot, size_t index, size_t n) {
      float* at[kMostQueries];
      for (size_t q = 0; q < tokens * b.heads; ++q)
        at[q] = b.scores[token * b.heads + q] + (index - b.paths[token + q / b.heads].first);
      step(token * b.heads, tokens * b.heads, slot, n, at);
    });
  };
  const bool shared = b.common_first < b.common_end;
  for (size_t t = 0; t < b.tokens && shared; ++t) part(t, 1, b.paths[t].first, b.common_first);
  if (shared) part(0, b.tokens, b.common_first, b.common_end);
  for (size_t t = 0; t < b.tokens; ++t) part(t, 1, shared ? b.common_end : b.paths[t].first, b.paths[t].end);
}

// scores -> exp(score - max), in place; returns their sum. The row has room up to a multiple of sixteen.
template <class V>
EDGEDEC_INLINE float exponentials(float* scores, size_t n) {
  const size_t padded = (n + kLanes - 1) / kLanes * kLanes;
  for (size_t j = n; j < padded; ++j) scores[j] = -__builtin_inff();  // whose exponential is 0
  V top = V::load(scores);
  for (size_t j = kLanes; j < padded; j += kLanes) top = V::max(top, V::load(scores + j));
  top = V::broadcast(V::reduce_max(top));
  V sum = V::broadcast(0.0f);
  for (size_t j = 0; j < padded; j += kLanes) {
    const V p = exp(V::sub(V::load(scores + j), top));
    p.store(scores + j);
    sum = V::add(sum, p);
  }
  return V::reduce_add(sum);
}

template <class V>
void attend_block(const Block& b, const uint16_t* keys, const uint16_t* values) {
  const size_t dim = b.config.dim, queries = b.tokens * b.heads;
  for_all_runs(b, [&](size_t q, size_t count, size_t slot, size_t n, float* const* at) {
    score_run<V>(b.query + q, count, keys + slot * dim, dim, n, at);
  });
  float sums[kMostQueries];
  for (size_t q = 0; q < queries; ++q) {
    const Path& path = b.paths[q / b.heads];
    if (b.config.softcap > 0.0f) softcap_all<V>(b.scores[q], path.end - path.first, b.config.softcap);
    sums[q] = exponentials<V>(b.scores[q], path.end - path.first);
    for (size_t c = 0; c < dim; c += kLanes) V::broadcast(0.0f).store(b.out[q] + c);
  }
  for_all_runs(b, [&](size_t q, size_t count, size_t slot, size_t n, float* const* at) {
    value_run<V>(at, count, values + slot * dim, dim, n, b.out + q);
  });
  for (size_t q = 0; q < queries; ++q)
    for (size_t c = 0; c < dim; c += kLanes)
      V::div(V::load(b.out[q] + c), V::broadcast(sums[q])).store(b.out[q] + c);
}

// Heads [h0, h1) of one kv head, at most kMostQueries, for the n tokens from m0 whose paths the block holds.
template <class V>
void attend_heads(Block& b, const Cache& cache, const float* queries, float* out, size_t m0, size_t h0, size_t h1,
                  float* scratch, size_t stride) {
  const Config& config = b.config;
  b.heads = h1 - h0;
  for (size_t q = 0; q < b.tokens * b.heads; ++q) {
    const size_t at = ((m0 + q / b.heads) * config.heads + h0 + q % b.heads) * config.dim;
    b.query[q] = queries + at;
    b.out[q] = out + at;
    b.scores[q] = scratch + q * stride;
  }
  const size_t offset = h0 / (config.heads / config.kv_heads) * cache.head_stride;
  attend_block<V>(b, cache.keys + offset, cache.values + offset);
}

template <class V>
void attend(const Config& config, const Cache& cache, const Pass& pass, const float* queries, float* out, size_t m0,
            size_t m1, size_t h0, size_t h1, float* scratch) {
  const size_t group = config.heads / config.kv_heads, most = block_tokens(config, pass);
  const size_t stride = score_stride(config, pass);
  auto* room = reinterpret_cast<int32_t*>(scratch + most * group * stride);
  for (size_t m = m0; m < m1; m += most) {
    Block b{config, pass.length, m1 - m < most ? m1 - m : most, 0, 0, 0, {}, {}, {}, {}};
    b.common_end = pass.length + find_paths(config, pass, m, b.tokens, room, b.paths);
    for (size_t t = 0; t < b.tokens; ++t)
      if (b.paths[t].first > b.common_first) b.common_first = b.paths[t].first;
    for (size_t h = h0; h < h1;) {
      size_t end = (h / group + 1) * group;
      if (end > h1) end = h1;
      if (end > h + kMostQueries) end = h + kMostQueries;
      attend_heads<V>(b, cache, queries, out, m, h, end, scratch, stride);
      h = end;
    }
  }
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, prepare<V>, attend<V>};
}

}  // namespace
}  // namespace edgedec::tree_attention
