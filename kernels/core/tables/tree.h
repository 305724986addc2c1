// Grows a draft tree in order of path probability, for drafters without a model.
#pragma once

#include <algorithm>

#include "core/tables/drafter.h"

namespace edgedec::draft {

// Candidate nodes, the most probable path first; among equals, the one that was pushed first.
template <class State, int kCapacity>
class Frontier {
 public:
  struct Node {
    double reach;  // probability of the path to here
    double prob;
    int32_t order, token, parent;
    State after;
  };

  bool empty() const { return count_ == 0; }

  void push(double reach, double prob, int32_t token, int32_t parent, const State& after) {
    if (count_ == kCapacity) return;
    nodes_[count_++] = {reach, prob, order_++, token, parent, after};
    std::push_heap(nodes_, nodes_ + count_, later);
  }

  const Node& pop() {
    std::pop_heap(nodes_, nodes_ + count_, later);
    return nodes_[--count_];
  }

 private:
  static bool later(const Node& a, const Node& b) {
    return a.reach < b.reach || (a.reach == b.reach && a.order > b.order);
  }

  Node nodes_[kCapacity];
  int count_ = 0;
  int32_t order_ = 0;
};

// Writes at most `limit` nodes whose paths are more probable than `floor`, the most probable first; returns how many.
//
// following(state, put) calls put(token, probability, state after it) for the tokens that may follow a state, first for
// `state`, the root's. At most kCapacity candidates wait at a time; further ones are dropped.
template <int kCapacity, class State, class Following>
int best_first(State state, int64_t limit, double floor, const Following& following, const Tree& tree) {
  Frontier<State, kCapacity> frontier;
  const int most = static_cast<int>(std::clamp<int64_t>(limit, 0, kMostNodes));
  int32_t node = kRoot;
  double reach = 1.0;
  for (int count = 0; count < most; ++count) {
    following(state, [&](int32_t token, double prob, const State& after) {
      const double here = reach * prob;
      if (here > floor) frontier.push(here, prob, token, node, after);
    });
    if (frontier.empty()) return count;
    const auto& best = frontier.pop();
    tree.tokens[count] = best.token;
    tree.parents[count] = best.parent;
    tree.probs[count] = best.prob;
    node = count, reach = best.reach, state = best.after;
  }
  return most;
}

}  // namespace edgedec::draft
