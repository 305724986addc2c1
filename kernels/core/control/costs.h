// Measured seconds of a pass over T tokens on this machine: edgedec/control/costs.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/control/linear_fit.h"

namespace edgedec::engine {

// Times of passes over 1 to longest() tokens; between measured numbers of tokens, straight lines. Costs never fall
// with T. Later observations move all of the curve (a machine that slows down) and its shape near that number of
// tokens (a context that grows); a pass over one token moves all of it alike.
class CostCurve {
 public:
  // `measured` must have 1 and the longest. `old`: measured at another time, perhaps under another load. Only the
  // shape counts then; the level is that of the first observations, over however many tokens.
  static Status make(Points measured, bool old, CostCurve* curve);

  int longest() const { return static_cast<int>(first_.size()); }
  // Seconds of a pass over one token.
  double plain() const { return scale_ * relative_[0]; }
  // Seconds of a pass over 1 to longest() tokens; others cost as much as the nearest of these.
  double seconds(int tokens) const { return scale_ * relative_[place(tokens)]; }
  // Seconds per token beside the first, of the pass over at most 1 + `more` tokens where they are cheapest; 0 if
  // there is no such pass.
  double least_slope(int more) const;

  // Records a pass. Returns false for a single one that took several times too long, which was interrupted and does
  // not count.
  bool observe(int tokens, double seconds);

  // Takes the level from the next passes, as for an old curve; from one alone if that is as usual.
  void doubt_level();
  // Whether a pass over one token should be measured again first.
  bool plain_is_unclear() const;
  // Whether the curve waits for passes that show how quick the machine is now.
  bool level_is_old() const { return awaited_ > 0; }
  // Largest relative distance from the initial curve: 0.15 is 15 % at some number of tokens.
  double drift() const;
  // The curve as it is now, to make another one with.
  Points measured() const;

 private:
  size_t place(int tokens) const;
  void take_level(double seen);
  void see_one(double off, double weight);
  void see_several(int tokens, double off, double weight);
  void bend();
  void rise();

  std::vector<int> points_;
  std::vector<double> first_, shape_, bent_, relative_, slopes_;
  std::vector<int64_t> seen_;
  std::vector<double> levels_;  // of the passes awaited
  int strange_[2] = {0, 0};  // passes in a row that took several times too long: those with drafts, and plain ones
  int awaited_ = 0;
  bool doubted_ = false;  // whether plain passes are to show the level; the first may show that it has not changed
  double level_ = 0.0, level_of_one_ = 0.0, scale_ = 1.0;
};

}  // namespace edgedec::engine
