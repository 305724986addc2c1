#include "core/control/planner.h"

#include <algorithm>

namespace edgedec::engine {

FeedPlan Planner::plan(const DraftTree& tree, const Costs& costs, const FeedTerms& terms) {
  const double plain = costs.plain();
  const double rate = std::max(terms.rate, 1.0 / plain);
  const int most = std::min(static_cast<int>(tree.size()), costs.longest() - 1);
  double expected = 0.0;
  FeedPlan best;
  reach_.clear();
  for (int node = 0; node < most; ++node) {
    const auto at = static_cast<size_t>(node);
    const int parent = tree.parents[at];
    reach_.push_back(tree.probs[at] * (parent == kRoot ? 1.0 : reach_[static_cast<size_t>(parent)]));
    expected += reach_[at];
    const double more = costs.seconds(node + 2) - plain + terms.verify_overhead * (node + 1);
    if (more > terms.spare) break;
    const double gain = costs.worth(expected) - rate * more;
    if (gain > best.gain) best = {node + 1, expected, gain};
  }
  return best;
}

double least_reach(const Costs& costs, int limit, double rate, double verify_overhead) {
  return std::max(rate, 1.0 / costs.plain()) * (costs.least_slope(limit) + verify_overhead);
}

}  // namespace edgedec::engine
