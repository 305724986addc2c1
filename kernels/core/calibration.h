// Shares of tokens that were right, by the probability that they were stated with.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace edgedec::engine {

constexpr double kPriorWeight = 4.0;  // observations that a belief weighs as much as

// Counts in equal steps of the stated probability, the last of which is 1 alone. `guesses` are the shares before
// anything was counted; they weigh as much as `prior` tokens. Counts are halved after `memory` tokens of a step.
class Calibration {
 public:
  Calibration(std::vector<double> guesses, double prior, double memory)
      : right_(std::move(guesses)), seen_(right_.size(), prior), memory_(memory) {
    for (double& right : right_) right = prior * right;
  }

  size_t step(double prob) const {
    const double steps = static_cast<double>(seen_.size() - 1);
    const double at = prob * steps;
    return at > 0.0 ? static_cast<size_t>(std::min(at, steps)) : 0;
  }

  double of(double prob) const {
    const size_t at = step(prob);
    return right_[at] / seen_[at];
  }

  void count(double prob, bool right) {
    const size_t at = step(prob);
    const double fade = seen_[at] >= memory_ ? 0.5 : 1.0;
    seen_[at] = fade * seen_[at] + 1.0;
    right_[at] = fade * right_[at] + right;
  }

 private:
  std::vector<double> right_, seen_;
  double memory_;
};

}  // namespace edgedec::engine
