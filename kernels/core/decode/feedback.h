// Feedback that drafters have not been told yet.
//
// A pass leaves nothing of a drafter in the processor's caches, and of many rounds told at once only the first costs much.
// So drafters are told when one of them is queried.
#pragma once

#include <cstddef>
#include <vector>

#include "core/base/span.h"
#include "core/rows.h"
#include "core/tree.h"

namespace edgedec::engine {

// The target's answers to the last committed token and to `tree` behind it, or none, and the tokens that were committed
// after it.
struct RoundFeedback {
  bool answered = false;
  DraftTree tree;
  HeadRows rows;
  std::vector<int32_t> tokens;
};

// Rounds in order. Their buffers are used again.
class PendingFeedback {
 public:
  // Whether it is time to tell them, whoever is queried.
  bool full() const { return count_ > kMostRounds; }
  bool empty() const { return count_ == 0; }
  Span<const RoundFeedback> rounds() const { return {rounds_.data(), count_}; }
  void clear() { count_ = 0; }

  // Notes a round; without feedback its tokens join those of the round before.
  void add(const DraftTree* tree, const HeadView* rows, Span<const int32_t> tokens) {
    if (!rows && count_) {
      std::vector<int32_t>& last = rounds_[count_ - 1].tokens;
      last.insert(last.end(), tokens.begin(), tokens.end());
      return;
    }
    if (count_ == rounds_.size()) rounds_.emplace_back();
    RoundFeedback& round = rounds_[count_++];
    round.tokens.assign(tokens.begin(), tokens.end());
    round.answered = rows != nullptr;
    if (!rows) return;
    round.tree = *tree;
    copy_without_logits(*rows, &round.rows);  // whole rows would be megabytes
  }

 private:
  static constexpr size_t kMostRounds = 32;  // at some kilobytes each

  static void copy_without_logits(const HeadView& from, HeadRows* to) {
    const size_t cells = from.rows * from.k;
    to->rows = from.rows;
    to->k = from.k;
    to->vocabulary = from.vocabulary;
    to->values.assign(from.values, from.values + cells);
    to->ids.assign(from.ids, from.ids + cells);
    to->logsumexp.assign(from.logsumexp, from.logsumexp + from.rows);
    to->entropy.assign(from.entropy, from.entropy + from.rows);
    to->temperature = from.temperature;
  }

  std::vector<RoundFeedback> rounds_;
  size_t count_ = 0;
};

}  // namespace edgedec::engine
