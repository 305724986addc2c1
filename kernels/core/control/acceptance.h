// Acceptance rates, by drafter and by the probability that it gave a token.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/span.h"
#include "core/calibration.h"
#include "core/tree.h"

namespace edgedec::engine {

// A drafted token counts when its parent was committed: then the next committed token shows whether it was right, also
// for tokens that were never fed. So every queried drafter is scored, fed or not, at no cost.
class Acceptance {
 public:
  void add_drafter();

  // Probability that a token is right to which a drafter gave `prob`: the measured rate of tokens of about that
  // probability, times the drafter's recent form, where a change of the text shows first.
  double calibrate(Source source, double prob) const;
  // `committed` followed where `tree` was proposed.
  void observe(const DraftTree& tree, Span<const int32_t> committed);

  static constexpr int kSteps = 10;
  // Tokens of a probability from a step (of kSteps, and one more for certain tokens) up that were judged, and that were
  // right.
  struct Judged {
    int64_t tokens = 0, right = 0;
  };
  Span<const Judged> judged(Source source) const { return of(source).counts; }

 private:
  struct Drafter {
    Drafter();
    void count(double prob, bool right);

    Calibration calibration;
    double recently_right = 0.0, recently_expected = 0.0;
    double form = 1.0;
    std::vector<Judged> counts;
  };

  const Drafter& of(Source source) const { return drafters_[static_cast<size_t>(source)]; }

  std::vector<Drafter> drafters_;
  std::vector<int> depths_;  // of the nodes being scored
  std::vector<char> right_;
};

}  // namespace edgedec::engine
