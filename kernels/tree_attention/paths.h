// The keys of a token, as runs of consecutive rows of the cache.
#pragma once

#include <cstring>

#include "simd/vec16.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

// Writes the chain of token m; returns its length.
EDGEDEC_INLINE size_t walk(const int64_t* parents, size_t m, int32_t* chain) {
  size_t count = 0;
  for (auto at = static_cast<int64_t>(m); at >= 0; at = parents[at]) ++count;
  size_t i = count;
  for (auto at = static_cast<int64_t>(m); at >= 0; at = parents[at]) chain[--i] = static_cast<int32_t>(at);
  return count;
}

// Finds the paths of tokens m0 .. m0 + n - 1; room: n * pass.tokens. Returns how many chain entries they share.
EDGEDEC_INLINE size_t find_paths(const Config& config, const Pass& pass, size_t m0, size_t n, int32_t* room,
                                 Path* paths) {
  size_t common = 0, count = 0;
  for (size_t t = 0; t < n; ++t) {
    int32_t* chain = room + t * pass.tokens;
    if (t > 0 && pass.parents[m0 + t] == static_cast<int64_t>(m0 + t) - 1) {
      // The chain is its parent's plus one token, so it shares as much with the first path as its parent.
      std::memcpy(chain, chain - pass.tokens, count * sizeof *chain);
      chain[count++] = static_cast<int32_t>(m0 + t);
    } else {
      count = walk(pass.parents, m0 + t, chain);
      if (t == 0) common = count;
      size_t same = 0;
      while (same < common && same < count && chain[same] == room[same]) ++same;
      common = same;
    }
    const size_t end = pass.length + count;
    const size_t seen = config.window && config.window < end ? end - config.window : 0;
    paths[t] = {seen, end, chain, pass.length, pass.base, pass.lent, pass.lent_base};
  }
  return common;
}

// Calls run(row, index, n) for n consecutive slots from path index `index`: in two calls where a ring wraps.
template <class F>
EDGEDEC_INLINE void for_rows(size_t capacity, size_t slot, size_t index, size_t n, F run) {
  for (size_t row = slot % capacity; n > 0; row = 0) {
    const size_t part = n < capacity - row ? n : capacity - row;
    run(row, index, part);
    index += part;
    n -= part;
  }
}

// Calls run(row, index, n) for the indices [i, end) of a path, consecutive rows together, ascending.
template <class F>
EDGEDEC_INLINE void for_runs(const Path& path, size_t capacity, size_t i, size_t end, F run) {
  const size_t length = path.length;
  if (i < path.lent && i < end) {
    const size_t stop = end < path.lent ? end : path.lent;
    run(path.lent_base + i, i, stop - i);
    i = stop;
  }
  const auto own = [&](size_t row, size_t index, size_t n) { run(path.base + row, index, n); };
  if (i < length && i < end) {
    const size_t stop = end < length ? end : length;
    if (stop < end && path.chain[0] == 0) {  // the chain continues in the next slots
      size_t n = 1;
      while (stop + n < end && path.chain[n] == static_cast<int32_t>(n)) ++n;
      for_rows(capacity, i, i, stop + n - i, own);
      i = stop + n;
    } else {
      for_rows(capacity, i, i, stop - i, own);
      i = stop;
    }
  }
  while (i < end) {
    const int32_t* chain = path.chain + (i - length);
    size_t n = 1;
    while (i + n < end && chain[n] == chain[0] + static_cast<int32_t>(n)) ++n;
    for_rows(capacity, length + static_cast<size_t>(chain[0]), i, n, own);
    i += n;
  }
}

}  // namespace
}  // namespace edgedec::tree_attention
