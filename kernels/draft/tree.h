// A tree grown from the most probable path on: what drafters without a model of their own have in common.
#pragma once

#include <algorithm>

#include "draft/drafter.h"

namespace edgedec::draft {

// Nodes that may come next, the most probable path first; of equals, the one that was put in first.
template <class State, int kCapacity>
class Frontier {
 public:
  struct Node {
    double reach;  // probability of all tokens down to here
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

// Writes the `limit` nodes with the most probable paths above `floor`, the most probable first; how many there were.
//
// following(state, put) calls put(token, probability, state after it) for the tokens that may come after a state,
// `state` itself for the root. No more than kCapacity nodes may wait at once to be taken.
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
