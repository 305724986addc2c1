// An account that bounds the time speculation may lose.
#pragma once

#include <algorithm>

namespace edgedec::engine {

constexpr double kLossShare = 0.008;  // of all tokens that speculation may lose

// A balance in passes over one token; below zero nothing is drafted.
class Credit {
 public:
  double passes() const { return passes_; }

  // Starts a new sequence. It may be another sort of text: what was saved before pays for a little only.
  void begin() { passes_ = std::min(passes_, kFirst); }
  // Records a round that committed what is worth `tokens` and took as long as `cost` passes over one token.
  void book(double tokens, double cost) {
    const double won = tokens * (1.0 + kLossShare) - cost;
    passes_ = std::max(std::min(passes_ + won, kMost), -kMost);
  }

 private:
  static constexpr double kFirst = 3.0, kMost = 12.0;

  double passes_ = kFirst;
};

}  // namespace edgedec::engine
