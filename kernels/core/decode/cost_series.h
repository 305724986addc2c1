// The passes that are timed to know what passes cost, and what comes of their times: edgedec/costs/pass_costs.py.
//
// Three passes or fewer are timed between two passes over one token, and only the ratio to these counts, the median of some
// rounds: load that lasts slows down both, and load that comes and goes falls on few rounds.
#pragma once

#include <cstdint>
#include <vector>

#include "core/control/linear_fit.h"

namespace edgedec::engine {

constexpr int kMostTimed = 16;  // tokens: the longest pass that one sequence verifies

// Passes over 1 to 16 tokens, as far as a cache of `capacity` slots and passes of `max_pass` tokens go.
class CostSeries {
 public:
  // `streamed`: passes over many tokens read nearly all experts from a disk.
  CostSeries(int64_t capacity, int64_t max_pass, bool streamed = false);

  // Tokens of the next pass; 0: there were enough.
  int next() const;
  // Whether the rounds may end here, and the seconds beyond which they do: all of them are made only where passes are
  // quick, and one has to do where three would take minutes.
  bool may_end() const { return timed_ && !within() && turn(); }
  double patience() const { return turn() < kRounds ? patience_ : 0.5; }
  // The next pass took so long.
  void took(double seconds);
  // Whether the latest pass ends a group, and the part of the fewest rounds that is done then.
  bool paired() const { return timed_ > 1 && !sizes_.empty() && group_.empty(); }
  double part() const;

  // Seconds by tokens.
  Points points() const;
  // The most tokens that are timed.
  int longest() const { return sizes_.empty() ? 1 : sizes_.back(); }

 private:
  static constexpr int kRounds = 3, kMostRounds = 9;

  void end_group(double after);
  int per_turn() const { return static_cast<int>(steps_.size()); }
  int turn() const { return (timed_ - 1) / per_turn(); }
  int within() const { return (timed_ - 1) % per_turn(); }

  std::vector<int> sizes_;  // beside 1
  std::vector<int> steps_;  // tokens of the passes of a round
  std::vector<std::vector<double>> ratios_;
  std::vector<double> ones_, group_;  // times of passes over one token, and of those since the last of them
  size_t first_ = 0;                  // place of the group among the sizes
  double patience_;
  int timed_ = 0, groups_ = 0;        // groups: that were timed
};

}  // namespace edgedec::engine
