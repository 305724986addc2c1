// Times of passes of which a drafter computed a part.
#pragma once

#include <optional>
#include <vector>

#include "core/control/costs.h"

namespace edgedec::engine {

// Shares of an ordinary pass that passes take, by their tokens and those computed in part. They are measured, and say
// nothing about the machine's speed: a pass counts for the curve as an ordinary one would have taken.
class Reuse {
 public:
  // Seconds that a pass over `tokens` usually takes, `reused` of them computed in part.
  double expected(const Costs& costs, int tokens, int reused) const;
  // Whether such a pass was seen before.
  bool known(int tokens, int reused) const { return find(tokens, reused) != nullptr; }
  // Seconds to charge for such a pass, and learn. No `seconds`: it was not measured, and the usual ones are charged.
  double passing(Costs& costs, int tokens, int reused, std::optional<double> seconds);

 private:
  struct Share {
    int tokens, reused;
    double share;
    int seen;
  };

  const Share* find(int tokens, int reused) const;

  std::vector<Share> shares_;
};

}  // namespace edgedec::engine
