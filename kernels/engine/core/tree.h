// The draft tree, which drafters propose and the verifier walks: edgedec/core/tree.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgedec::engine {

constexpr int kRoot = -1;  // the parent of first tokens: the last committed token

// A drafter's place in the list that control was given.
using Source = int;

// N drafted tokens; parents[i] is the index of node i's parent, smaller than i, or kRoot. probs[i]: the drafter's
// estimate, in (0, 1], that the target continues the parent with this token. Siblings may repeat a token.
struct DraftTree {
  std::vector<int32_t> tokens;
  std::vector<int> parents;
  std::vector<double> probs;
  std::vector<Source> sources;

  size_t size() const { return tokens.size(); }
  bool empty() const { return tokens.empty(); }
};

}  // namespace edgedec::engine
