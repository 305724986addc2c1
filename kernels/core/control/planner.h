// Feeding a draft: how much of it is worth the time.
#pragma once

#include <limits>
#include <vector>

#include "core/control/costs.h"
#include "core/tree.h"

namespace edgedec::engine {

// Feed the first `nodes` of a draft. `accepted` of them are expected to be accepted. `gain` is that, less the tokens
// that their time is worth elsewhere.
struct FeedPlan {
  int nodes = 0;
  double accepted = 0.0;
  double gain = 0.0;
};

// The terms of a plan: tokens per second that decoding goes at (never taken as less than plain decoding's), seconds
// per drafted token outside the pass, and the most seconds above a plain pass.
struct FeedTerms {
  double rate = 0.0;
  double verify_overhead = 0.0;
  double spare = std::numeric_limits<double>::infinity();
};

class Planner {
 public:
  // Chooses how many nodes, from the front of `tree`, make the most of the time they take. A drafted token is
  // committed with the probability of its path, and worth feeding while that exceeds the time it adds times the rate.
  // Each prefix of `tree` must be the best tree of its size, as Merger makes it. No nodes: do not speculate.
  FeedPlan plan(const DraftTree& tree, const Costs& costs, const FeedTerms& terms);

 private:
  std::vector<double> reach_;
};

// The path probability below which no token of a draft of at most `limit` tokens can pay.
double least_reach(const Costs& costs, int limit, double rate = 0.0, double verify_overhead = 0.0);

}  // namespace edgedec::engine
