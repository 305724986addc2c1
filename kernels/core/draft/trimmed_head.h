// When a drafter computes the kept ids of its head, and when all of them.
//
// A trimmed head reads fewer bytes, and cannot draft a token that it lacks. Coverage is high on text like the replies that
// were counted and low elsewhere: another language, rare names. Rare names come again: so ids that occur in the text are
// kept too, as long as it goes on. The rate of the target's tokens outside all of these decides, over about the last 64 of
// them. Above a bound the full head drafts, until the rate has fallen to half of that.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/span.h"

namespace edgedec::engine {

// The ids that a head computes: those that were chosen (ascending), and those of texts.
class KeptIds {
 public:
  // `shared`: by conversations whose passes are computed together. Then ids of all their texts are kept.
  explicit KeptIds(std::vector<int64_t> chosen, bool shared = false)
      : chosen_(std::move(chosen)), all_(chosen_), shared_(shared) {}

  const std::vector<int64_t>& chosen() const { return chosen_; }
  // The ids to keep now, ascending.
  Span<const int64_t> all() const { return all_; }
  // Another number whenever they change.
  int64_t version() const { return version_; }
  // Most of them.
  size_t most() const;
  bool lacks(int32_t token) const;
  // Forgets the ids of a text, unless they are of others too.
  void begin();
  // Keeps tokens that it lacks.
  void add(std::vector<int64_t>* tokens);
  size_t nbytes() const;

 private:
  std::vector<int64_t> chosen_, all_;
  bool shared_;
  int64_t version_ = 0;
};

// Whether the head of one drafter is trimmed now. Drafters of one text may share it.
class TrimmedHead {
 public:
  // `bound`: the rate above which the full head drafts. `saved`: the part of a pass's bytes that the trimmed head leaves
  // unread, 0 to 1.
  TrimmedHead(std::shared_ptr<KeptIds> kept, double bound, double saved)
      : kept_(std::move(kept)), bound_(bound), saved_(saved) {}

  // One of the same ids that has followed no text; `shared`: for several conversations.
  std::shared_ptr<TrimmedHead> again(bool shared = false) const;
  // One for another conversation, with which this one shares its ids.
  std::shared_ptr<TrimmedHead> beside() const { return std::make_shared<TrimmedHead>(kept_, bound_, saved_); }

  double saved() const { return saved_; }
  const KeptIds& kept() const { return *kept_; }
  // Ids that the next draft is made of; none for all.
  Span<const int64_t> keep() const { return full_ ? Span<const int64_t>() : kept_->all(); }
  // Recent rate of tokens outside of the ids.
  double outside() const { return rate_; }
  // Starts another text. Its tokens so far are no replies and do not count.
  void begin();
  // Notes the committed `text`, in the drafter's ids; those since the last call count.
  void follow(Span<const int32_t> text);
  size_t nbytes() const { return kept_->nbytes(); }

 private:
  static constexpr size_t kUnread = static_cast<size_t>(-1);

  std::shared_ptr<KeptIds> kept_;
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
