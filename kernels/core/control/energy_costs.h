// Costs in joules, for control that minimises the energy of a token instead of its time.
#pragma once

#include <algorithm>
#include <vector>

#include "core/control/wrapped_costs.h"

namespace edgedec::engine {

// The seconds of other costs, times the watts above idle of a pass over as many tokens. Drafters are charged the power of
// a plain pass. A machine that slows down takes longer for all passes alike, which changes no decision.
class EnergyCosts final : public WrappedCosts {
 public:
  // `watts` by tokens of a pass, from one token on; between them, straight lines.
  EnergyCosts(Costs& seconds, const Points& watts) : WrappedCosts(seconds) {
    for (int tokens = 1; tokens <= seconds.longest(); ++tokens) watts_.push_back(between(watts, tokens));
  }

  double seconds(int tokens) const override { return price(inner_.seconds(tokens), tokens); }
  double price(double seconds, int tokens) const override { return seconds * watts(tokens); }
  bool observe(int tokens, double cost, bool plain) override {
    return inside(tokens) && inner_.observe(tokens, cost / watts(tokens), plain);
  }

 private:
  double watts(int tokens) const { return watts_[static_cast<size_t>(std::clamp(tokens, 1, longest()) - 1)]; }

  std::vector<double> watts_;
};

}  // namespace edgedec::engine
