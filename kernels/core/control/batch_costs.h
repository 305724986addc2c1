// Costs of a drafted token in a batch: several sequences share the passes, and so their costs.
//
// With k sequences in a pass that has c tokens of the others, and T(n) the seconds of a pass over n tokens:
//
//     a token without drafts    T(k) / k          one's share of the pass that all make when nobody drafts
//     d drafted tokens more     the greater of    T(c + 1 + d) - T(c + 1), their addition to this pass, and
//                               (T(c + 1 + d) - T(k)) d / (c + 1 + d - k), their share of what all drafts add
//
// The shares of all sequences come to the whole pass at least. So if none of them books more than it gains, all together
// are not slower than without drafts, whichever way T bends. Alone (k = 1, c = 0) these are T's own costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/span.h"
#include "core/control/wrapped_costs.h"

namespace edgedec::engine {

// Costs of one sequence's tokens. BatchCosts observes the passes, with the tokens of all.
class SequenceCosts final : public WrappedCosts {
 public:
  explicit SequenceCosts(Costs& table) : WrappedCosts(table) {}

  // Seconds of a pass that are on account of this sequence, with `tokens` tokens of it.
  double seconds(int tokens) const override;
  double plain() const override { return whole(others_ + 1) / (others_ + 1); }
  double price(double seconds, int) const override { return seconds; }
  // BatchCosts learns from passes: a sequence's own view of one includes waiting for the others.
  double expected(int, double seconds, const PassReads*) override { return seconds; }
  bool observe(int, double, bool) override { return false; }
  // No passes over one token would show the level, or make it clear.
  bool doubt_level() override { return false; }
  bool level_is_old() const override { return false; }
  bool plain_is_unclear() const override { return !others_ && inner_.plain_is_unclear(); }

  // Notes that a pass was shared with so many other sequences, which had `tokens` tokens in all.
  void shared(int others, int tokens);

 private:
  double whole(int tokens) const;

  int others_ = 0;
  double each_ = 1.0;  // mean tokens of another sequence in a pass
};

// The costs of passes that sequences share.
class BatchCosts {
 public:
  BatchCosts(Costs& table, size_t sequences) : table_(table) {
    views_.reserve(sequences);  // views stay where they are
    for (size_t at = 0; at < sequences; ++at) views_.emplace_back(table);
  }

  size_t count() const { return views_.size(); }
  SequenceCosts& view(size_t at) { return views_[at]; }
  // Notes that a pass took `seconds` over so many tokens of each of these sequences.
  void passed(Span<const std::pair<int, int>> tokens, double seconds, const PassReads* reads);

 private:
  Costs& table_;
  int64_t passes_ = 0;
  std::vector<SequenceCosts> views_;
};

}  // namespace edgedec::engine
