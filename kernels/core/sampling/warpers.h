// Which part of a sorted list of logits stays.
//
// Canonical order everywhere: value descending, id ascending among equal values. Each keeps a prefix of it, and says how
// long that is; a list that is just a prefix of the vocabulary may be too short to tell, and then the answer is kUnknown.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/span.h"

namespace edgedec::engine {

constexpr size_t kUnknown = static_cast<size_t>(-1);

// Sum in the order given, one after the other.
inline double total_of(Span<const double> x) {
  double sum = 0.0;
  for (const double one : x) sum += one;
  return sum;
}

// Length of the prefix kept by top-k: k, or all there is.
inline size_t top_k_count(size_t size, int64_t k, bool complete) {
  if (static_cast<uint64_t>(k) <= size) return static_cast<size_t>(k);
  return complete ? size : kUnknown;
}

// Length of the prefix with value >= cut.
inline size_t at_least_count(Span<const double> values, double cut, bool complete) {
  for (size_t at = 0; at < values.size(); ++at)
    if (values[at] < cut) return at;
  return complete ? values.size() : kUnknown;
}

// Length of the shortest prefix with weight >= p * total (Holtzman et al. 2020), at least one.
inline size_t top_p_count(Span<const double> weights, double total, double p, bool complete) {
  double mass = 0.0;
  for (size_t at = 0; at < weights.size(); ++at)
    if ((mass += weights[at]) >= p * total) return at + 1;
  return complete ? weights.size() : kUnknown;
}

}  // namespace edgedec::engine
