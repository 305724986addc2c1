// When a drafter computes the kept ids of its head, and when all of them: edgedec/draft/trimmed.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/span.h"

namespace edgedec::engine {

// The ids that a head is trimmed to (ascending), and whether it is now. Ids that occur in the text are kept too. The rate of
// the target's tokens outside of them decides, over about the last 64 tokens.
class TrimmedHead {
 public:
  // `bound`: the rate above which the full head drafts. `saved`: the part of a pass's bytes that the trimmed head leaves
  // unread, 0 to 1.
  TrimmedHead(std::vector<int64_t> ids, double bound, double saved);

  double saved() const { return saved_; }
  size_t size() const { return ids_.size(); }
  // Ids that the next draft is made of; none for all.
  Span<const int64_t> keep() const { return full_ ? Span<const int64_t>() : Span<const int64_t>(kept_); }
  // Starts another text. Its tokens so far are no replies and do not count.
  void begin();
  // Notes the committed `text`, in the drafter's ids; those since the last call count.
  void follow(Span<const int32_t> text);
  size_t nbytes() const;

 private:
  static constexpr size_t kUnread = static_cast<size_t>(-1);
  void add();

  std::vector<int64_t> ids_;
  std::vector<int64_t> kept_;     // with those of the text
  std::vector<int64_t> outside_;  // tokens that are to be kept from now on
  double bound_, saved_, rate_ = 0.0;
  bool full_ = false;
  size_t read_ = kUnread;
};

// Tokens of a pass that verifies a chain of `length` tokens, each right with the chance `agreement`, and the one after them.
double chain_efficiency(double agreement, int length);

// Tokens that a round with a usual chain of drafts commits for the time of a pass. `step`: cost of a draft step, in passes of
// the target. `outside`: rate of tokens that it cannot draft, 0 to 1.
double chain_gain(double step, double outside = 0.0);

// The rate of tokens outside the kept ones at which a trimmed head is no longer worth its savings. `step`, `trimmed`: cost
// of a draft step with the full and with the trimmed head, in passes of the target.
double break_even(double step, double trimmed);

}  // namespace edgedec::engine
