// A draft in the making: nodes with the probability of their whole path, of which the best become a tree.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tree.h"

namespace edgedec::engine {

// Nodes, parents before children. `reach` is the probability of all tokens down to a node.
class TreeBuilder {
 public:
  std::vector<int32_t> tokens;
  std::vector<int> parents;
  std::vector<double> reach;

  size_t size() const { return tokens.size(); }
  void clear();
  // The index of `token` below `parent`; to one that is there already `reach` is added.
  int add(int32_t token, int parent, double reach);
  // Nodes from the first token down to `node`.
  void path(int node, std::vector<int>* nodes) const;
  // Tokens from the first one down to `node`.
  void spelled(int node, std::vector<int32_t>* tokens) const;
  // How many nodes are at least so probable.
  size_t at_least(double lead) const;
  // For each node the probability that it is the last one that was drafted rightly.
  std::vector<double> ends() const;
  // Appends the `limit` nodes with the most probable paths, none below `floor`, to `tree`. A path is at most as probable
  // as its beginning, so no node comes without its parent.
  void best(int limit, double floor, Source source, DraftTree* tree) const;

 private:
  double prob(int node) const;
};

}  // namespace edgedec::engine
