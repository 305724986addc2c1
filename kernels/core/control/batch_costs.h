// Costs of a drafted token in a batch: several sequences share the passes, and so their costs.
//
// With k sequences in a pass that has c tokens of the others, and T(n) the seconds of a pass over n tokens:
//
//     a token without drafts    T(k) / k          one's share of the pass that all make when nobody drafts
//     d drafted tokens more     the greater of    T(c + 1 + d) - T(c + 1), their addition to this pass, and
//                               (T(c + 1 + d) - T(k)) d / (c + 1 + d - k), their share of what all drafts add
//
// and of that the mean over the c of recent passes: T has steps, where kernels take one more turn, and one token in the next
// pass may be the one too many. The shares of all sequences come to the whole pass at least. So if none of them books more
// than it gains, all together are not slower than without drafts, whichever way T bends. Alone (k = 1, c = 0) these are T's
// own costs.
//
// A token that is accepted saves its share T(k) / k only as far as the others get on as quickly. One who is ahead of them
// ends sooner, and the others go on without it: that saves T(k) - T(k - 1), since one less reads no less weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/span.h"
#include "core/control/trials.h"
#include "core/control/wrapped_costs.h"

namespace edgedec::engine {

// Costs of one sequence's tokens. BatchCosts observes the passes, with the tokens of all.
class SequenceCosts final : public WrappedCosts {
 public:
  SequenceCosts(Costs& table, SharedTrials& trials) : WrappedCosts(table), trials_(trials) {}

  // Seconds of a pass that are on account of this sequence, with `tokens` tokens of it.
  double seconds(int tokens) const override;
  double least_slope(int more) const override;
  double plain() const override { return whole(others_ + 1) / (others_ + 1); }
  double price(double seconds, int) const override { return seconds; }
  // BatchCosts learns from passes: a sequence's own view of one includes waiting for the others.
  double expected(int, double seconds, const PassReads*) override { return seconds; }
  bool observe(int, double, bool) override { return false; }
  int sequences() const override { return others_ + 1; }
  SharedTrials* trials() override { return &trials_; }
  double worth(double accepted) const override;
  void committed(size_t tokens) override { pace_ = kKeptPace * pace_ + (1.0 - kKeptPace) * static_cast<double>(tokens); }
  // No passes over one token would show the level, or make it clear.
  bool doubt_level() override { return false; }
  bool level_is_old() const override { return false; }
  // Whether all sequences are to make a plain pass next.
  bool plain_is_unclear() const override { return plain_is_due_; }

  // Tokens that a pass commits lately.
  double pace() const { return pace_; }
  // Notes that a pass was shared with so many other sequences, which had `tokens` tokens in all. `pace`: of the slowest.
  void shared(int others, int tokens, double pace);
  // Notes whether the next pass of all sequences is to be plain.
  void due_plain(bool due) { plain_is_due_ = due; }

 private:
  static constexpr size_t kRecentPasses = 16;
  static constexpr double kKeptPace = 0.7;

  double whole(int tokens) const;
  double more(int theirs, int drafted) const;

  SharedTrials& trials_;
  int others_ = 0;
  int recent_[kRecentPasses] = {};  // tokens of the others in recent passes that had as many of them
  size_t passes_ = 0;
  std::vector<std::pair<int, int>> often_;  // these numbers of tokens, and how many passes had each
  mutable std::pair<int, double> slope_ = {0, 0.0};  // the latest answer of least_slope(), until the next pass
  double pace_ = 1.0, slowest_ = 1.0;  // of this sequence, and of the slowest other one
  bool plain_is_due_ = false;
};

// The costs of passes that sequences share. Of drafted passes alone nobody could tell a machine that slows down from tokens
// that cost more than was measured: then those of drafts would seem to cost nothing. So plain passes of all sequences come
// now and then, and at once when drafted ones take longer or less long than usual.
class BatchCosts {
 public:
  BatchCosts(Costs& table, size_t sequences) : table_(table) {
    views_.reserve(sequences);  // views stay where they are
    for (size_t at = 0; at < sequences; ++at) views_.emplace_back(table, trials_);
  }

  size_t count() const { return views_.size(); }
  SequenceCosts& view(size_t at) { return views_[at]; }
  // Notes that a pass took `seconds` over so many tokens of each of these sequences.
  void passed(Span<const std::pair<int, int>> tokens, double seconds, const PassReads* reads);

 private:
  bool due_plain(bool plain);

  Costs& table_;
  SharedTrials trials_;
  int64_t passes_ = 0, since_plain_ = 0, asked_ = 0;
  std::vector<SequenceCosts> views_;
};

}  // namespace edgedec::engine
