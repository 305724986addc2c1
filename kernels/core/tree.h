// The draft tree, which drafters propose and the verifier walks: edgedec/core/tree.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/span.h"

namespace edgedec::engine {

constexpr int kRoot = -1;  // the parent of first tokens: the last committed token
constexpr int kNone = -2;  // no node

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

  void clear();
  void add(int32_t token, int parent, double prob, Source source);
  // Keeps the first `count` nodes.
  void shorten(size_t count);
  // Keeps these nodes, which ascend and have their parents among them.
  void keep(Span<const int> nodes);
  // The number of tokens from the root down to a node: 1 for first tokens.
  int depth_of(int node) const;
  // The largest of them; 0 without tokens.
  int depth() const;
  // The first child of `node` that is `token`, or kNone.
  int child(int node, int32_t token) const;
  // Puts the nodes first that spell `leading`, as far as a path from the root does.
  void lead(Span<const int32_t> leading);
};

}  // namespace edgedec::engine
