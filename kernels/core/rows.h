// Which rows of a pass go through the head, and the head's results: edgedec/core/rows.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/page_allocator.h"
#include "core/base/span.h"

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
  std::vector<float> hidden;     // [tokens of the pass, outputs of the layers Rows::taps side by side] or empty
  double temperature = 1.0;
};

// The same, in memory that somebody else keeps as long as it is read. `logits` is null where there are none.
struct HeadView {
  size_t rows = 0, k = 0, vocabulary = 0;
  const float* values = nullptr;
  const int32_t* ids = nullptr;
  const float* logsumexp = nullptr;
  const float* entropy = nullptr;
  const float* logits = nullptr;
  double temperature = 1.0;

  HeadView() = default;
  HeadView(const HeadRows& of)
      : rows(of.rows), k(of.k), vocabulary(of.vocabulary), values(of.values.data()), ids(of.ids.data()),
        logsumexp(of.logsumexp.data()), entropy(of.entropy.data()), logits(of.logits.empty() ? nullptr : of.logits.data()),
        temperature(of.temperature) {}

  const float* row_of_logits(size_t row) const { return logits + row * vocabulary; }
};

// Which rows of a pass go through the head. `temperature` is that of logsumexp and entropy.
struct Rows {
  enum Which { kLast, kAll, kChosen };
  Which which = kLast;
  Span<const int> indices;  // for kChosen: indices into the pass; none is allowed
  bool full = false;        // also return whole rows of logits
  double temperature = 1.0;
  Span<const int> taps = {};  // also return the outputs of these layers, of every token of the pass; they are of Forward::taps()
  // Ids, ascending, that the head computes; none: all. Needs Forward::exits(). The results are as if there were no other
  // ids; rows have id -1 behind them where they are fewer than a row has entries.
  Span<const int64_t> keep = {};

  static Rows last() { return {}; }
  static Rows all() { return {kAll, {}, false, 1.0, {}, {}}; }
  static Rows chosen(Span<const int> indices) { return {kChosen, indices, false, 1.0, {}, {}}; }
};

}  // namespace edgedec::engine
