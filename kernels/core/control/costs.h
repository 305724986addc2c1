// The costs that control reads, and measured seconds of a pass over T tokens on this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/control/linear_fit.h"

namespace edgedec::engine {

constexpr double kUsualSpread = 0.3;  // relative deviation of a time that is ordinary
constexpr double kOutlier = 3.0;      // a time that is as many times the usual one was interrupted
constexpr double kWeight = 0.1;       // of a new time among earlier ones: speeds change (heat, other programs)
constexpr double kKeeping = 0.97;     // share of what longer passes told that remains: costly sizes are tried again
constexpr int64_t kSampled = 4;       // one in this many passes without queries is measured
constexpr int64_t kRestRounds = 4;    // until it is checked again whether drafts can pay, or what the machine's speed is
constexpr int kLevelPasses = 3;       // passes that show the level of an old curve, by their median

// Reads of a pass whose experts lie on a disk: those that were not in memory, and the seconds that it waited for them.
struct PassReads {
  double missed = 0.0;
  double waited_s = 0.0;
};

class SharedTrials;

// Costs of passes over 1 to longest() tokens, in one unit, which is seconds or joules. Control weighs them against each
// other, so the unit is of no account to it.
class Costs {
 public:
  virtual ~Costs() = default;

  virtual int longest() const = 0;
  // The cost of a pass over one token without drafts.
  virtual double plain() const = 0;
  // The cost of a pass over so many tokens; other numbers cost as much as the nearest of these.
  virtual double seconds(int tokens) const = 0;
  // The cost of `seconds` of drafting, or of a pass over `tokens`.
  virtual double price(double seconds, int) const { return seconds; }
  // Seconds that count of a pass which took `seconds`: of its waits for reads those to expect. No `reads`: it has none.
  virtual double expected(int, double seconds, const PassReads*) { return seconds; }
  // The cost per token beside the first, of the pass over at most 1 + `more` tokens where they are cheapest; 0 if there is
  // no such pass.
  virtual double least_slope(int more) const;
  // Records what a pass cost. Returns false for one that does not count. `plain`: the pass of a batch without drafts; like
  // a pass over one token it measures the speed of the machine, not the cost of more tokens.
  virtual bool observe(int tokens, double cost, bool plain = false) = 0;
  // Takes the level from the next passes; returns whether they will be plain ones.
  virtual bool doubt_level() = 0;
  // The worth of `accepted` tokens beside each pass, in tokens that a pass commits anyway.
  virtual double worth(double accepted) const { return accepted; }
  // Notes the tokens that a pass committed.
  virtual void committed(size_t) {}
  // Sequences that share passes, and so explore drafters at the same time.
  virtual int sequences() const { return 1; }
  // Tries of drafters by sequences that share passes; null for one alone.
  virtual SharedTrials* trials() { return nullptr; }
  // Whether a plain pass should be measured again first.
  virtual bool plain_is_unclear() const = 0;
  // Whether passes are awaited that show how quick the machine is now.
  virtual bool level_is_old() const = 0;
  // Largest relative distance from the initial costs: 0.15 is 15 % at some number of tokens.
  virtual double drift() const = 0;
  // Seconds of passes as they are now, to begin with the next time.
  virtual Points measured() const = 0;
};

// Times of passes over 1 to longest() tokens; between measured numbers of tokens, straight lines. Costs never fall
// with T. Later observations move all of the curve (a machine that slows down) and its shape near that number of
// tokens (a context that grows). A plain pass, over one token or one of each sequence of a batch, moves all of it alike,
// and tells which of the two the passes behind drafts had shown.
class CostCurve final : public Costs {
 public:
  // `measured` must have 1 and the longest. `old`: measured at another time, perhaps under another load. Only the
  // shape counts then; the level is that of the first observations, over however many tokens.
  static Status make(Points measured, bool old, CostCurve* curve);

  int longest() const override { return static_cast<int>(first_.size()); }
  double plain() const override { return scale_ * relative_[0]; }
  double seconds(int tokens) const override { return scale_ * relative_[place(tokens)]; }
  double least_slope(int more) const override;

  // A single pass that took several times too long was interrupted, and does not count.
  bool observe(int tokens, double seconds, bool plain = false) override;
  // As for an old curve; from one pass alone if that is as usual.
  bool doubt_level() override;
  bool plain_is_unclear() const override;
  bool level_is_old() const override { return awaited_ > 0; }
  double drift() const override;
  Points measured() const override;

 private:
  size_t place(int tokens) const;
  void take_level(double seen);
  void see_plain(int tokens, double off, double weight);
  void see_drafted(int tokens, double off, double weight);
  void bend();
  void rise();

  std::vector<int> points_;
  std::vector<double> first_, shape_, bent_, relative_, slopes_;
  std::vector<int64_t> seen_;
  std::vector<double> levels_;  // of the passes awaited
  int strange_[2] = {0, 0};  // passes in a row that took several times too long: those with drafts, and plain ones
  int awaited_ = 0;
  bool doubted_ = false;  // whether plain passes are to show the level; the first may show that it has not changed
  int64_t plain_seen_ = 0;
  double level_ = 0.0, level_of_plain_ = 0.0, scale_ = 1.0;
};

}  // namespace edgedec::engine
