// One tree out of several drafters' trees.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/span.h"
#include "core/control/acceptance.h"
#include "core/tree.h"

namespace edgedec::engine {

// Merges trees. It keeps its buffers, so that a round allocates nothing once they have grown.
class Merger {
 public:
  // Writes the `limit` nodes with the most probable paths of all trees, the most probable first, to `tree`. Nodes
  // with the same path are one node; it gets the best probability and the source of that. A prefix of the result, of
  // any length, is the best tree of that many nodes. Nothing follows a token of `stop_ids`, which ends the reply.
  // Probabilities are calibrated by `acceptance`; none: they are taken as stated.
  void merge(Span<const DraftTree> trees, int limit, const Acceptance* acceptance, Span<const int32_t> stop_ids,
             DraftTree* tree);

 private:
  // A place in the tree of all nodes. Children are a list in the order of their arrival.
  struct Place {
    int32_t token;
    double prob;
    Source source;
    int first_child, last_child, next_sibling;
  };
  // A node that may be chosen next: the probability of its path, and where its parent was put.
  struct Entry {
    double reach;
    int place, parent;
    bool operator<(const Entry& other) const;
  };

  void gather(const DraftTree& tree, const Acceptance* acceptance);
  int find(int above, int32_t token) const;
  int append(int above, int32_t token, double prob, Source source);
  void offer(int above, double reach, int parent);

  std::vector<Place> places_;  // the root is the first
  std::vector<int> place_of_;  // for each node of the tree being gathered
  std::vector<Entry> heap_;
};

}  // namespace edgedec::engine
