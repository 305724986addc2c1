// Which rows of a pass go through the head, and the head's results: edgedec/core/rows.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/page_allocator.h"
#include "engine/base/span.h"

namespace edgedec::engine {

using Logits = std::vector<float, PageAllocator<float>>;

// R rows of the k best logits, best first (ties: the lower id first). logsumexp and entropy (nats) are over the whole
// vocabulary, of logits divided by `temperature`. logits: R * vocabulary numbers, or none where they were not requested.
struct HeadRows {
  size_t rows = 0, k = 0, vocabulary = 0;
  std::vector<float> values;   // [R, k]
  std::vector<int32_t> ids;    // [R, k]
  std::vector<float> logsumexp;  // [R]
  std::vector<float> entropy;    // [R]
  Logits logits;                 // [R, vocabulary] or empty
  double temperature = 1.0;
};

// Which rows of a pass go through the head. `temperature` is that of logsumexp and entropy.
struct Rows {
  enum Which { kLast, kAll, kChosen };
  Which which = kLast;
  Span<const int> indices;  // for kChosen: indices into the pass; none is allowed
  bool full = false;        // also return whole rows of logits
  double temperature = 1.0;

  static Rows last() { return {}; }
  static Rows all() { return {kAll, {}, false, 1.0}; }
  static Rows chosen(Span<const int> indices) { return {kChosen, indices, false, 1.0}; }
};

}  // namespace edgedec::engine
