#include "core/control/reuse.h"

#include <algorithm>
#include <cmath>

#include "core/control/level_check.h"

namespace edgedec::engine {
namespace {

constexpr int kKnown = 8;  // passes after which a share is known well enough to tell the machine's speed
constexpr double kLeastWeight = 0.02;

}  // namespace

const Reuse::Share* Reuse::find(int tokens, int reused) const {
  const auto at = std::find_if(shares_.begin(), shares_.end(),
                               [&](const Share& one) { return one.tokens == tokens && one.reused == reused; });
  return at == shares_.end() ? nullptr : &*at;
}

double Reuse::expected(const Costs& costs, int tokens, int reused) const {
  const Share* known = find(tokens, reused);
  return (known ? known->share : 1.0) * costs.seconds(tokens);
}

double Reuse::passing(Costs& costs, int tokens, int reused, std::optional<double> seconds) {
  const double ordinary = costs.seconds(tokens);
  const Share* known = find(tokens, reused);
  const double share = known ? known->share : 1.0;
  const int seen = known ? known->seen : 0;
  if (!seconds || *seconds > kOutlier * ordinary) return share * ordinary;
  if (seen >= kKnown) costs.observe(tokens, *seconds / share);
  if (!known) shares_.push_back({tokens, reused, share, 0});
  Share& learned = known ? shares_[static_cast<size_t>(known - shares_.data())] : shares_.back();
  const double weight = std::max(1.0 / (seen + 1), kLeastWeight);
  learned.share = share + weight * (*seconds / ordinary - share);
  learned.seen = seen + 1;
  const double usual = share * ordinary;
  return !seen || std::abs(*seconds - usual) > kUsualSpread * usual ? *seconds : usual;
}

}  // namespace edgedec::engine
