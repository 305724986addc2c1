#include "core/control/acceptance.h"

#include <algorithm>
#include <cmath>

namespace edgedec::engine {
namespace {

constexpr double kTrust = 0.8;     // share of a drafter's own probability that counts before anything was observed
constexpr double kMemory = 400.0;  // observations after which older ones fade: text changes
constexpr double kRecent = 0.9;    // weight of earlier tokens in a drafter's recent form, per scored token

std::vector<double> guesses() {
  std::vector<double> all;
  constexpr int kSteps = Acceptance::kSteps;
  for (int step = 0; step <= kSteps; ++step) all.push_back(kTrust * (step + 0.5) / kSteps);
  return all;
}

}  // namespace

Acceptance::Drafter::Drafter() : calibration(guesses(), kPriorWeight, kMemory), counts(kSteps + 1) {}

void Acceptance::Drafter::count(double prob, bool right) {
  recently_expected = kRecent * recently_expected + calibration.of(prob);
  recently_right = kRecent * recently_right + right;
  // How many of the latest tokens were right, of those that should have been; a little leniently.
  const double right_at_best = recently_right + 0.3 * std::sqrt(recently_expected);
  form = std::min((right_at_best + 1.0) / (recently_expected + 1.0), 1.0);
  Judged& step = counts[calibration.step(prob)];
  ++step.tokens;
  step.right += right;
  calibration.count(prob, right);
}

void Acceptance::add_drafter() { drafters_.emplace_back(); }

double Acceptance::calibrate(Source source, double prob) const {
  const Drafter& known = of(source);
  return known.calibration.of(prob) * known.form;
}

void Acceptance::observe(const DraftTree& tree, Span<const int32_t> committed) {
  depths_.clear();
  right_.clear();
  for (size_t node = 0; node < tree.size(); ++node) {
    const int parent = tree.parents[node];
    const auto above = static_cast<size_t>(parent);
    const int depth = parent == kRoot ? 1 : depths_[above] + 1;
    const auto level = static_cast<size_t>(depth);
    const bool known = level <= committed.size() && (parent == kRoot || right_[above]);
    const bool right = known && tree.tokens[node] == committed[level - 1];
    depths_.push_back(depth);
    right_.push_back(right);
    if (known) drafters_[static_cast<size_t>(tree.sources[node])].count(tree.probs[node], right);
  }
}

}  // namespace edgedec::engine
