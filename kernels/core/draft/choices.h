// Next tokens of a draft model, best first, under the noise that the target will use.
//
// The target's token at position t is the argmin of E(seed, t, v) / p(v) over the tokens that its warpers leave
// (sampling/noise.h). A drafter that looks at its own q under the same noise and the same warpers mostly finds the same
// token, also at temperatures where two independent draws would rarely agree. Nothing here has to be exact: the head's few
// best logits stand for the whole vocabulary. Top-n-sigma would need the whole row and is left out, and so is mirostat,
// whose state is the target's.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"
#include "core/sampling/candidates.h"
#include "core/sampling/history.h"

namespace edgedec::engine {

// Says which token of the target means the same as one of the drafter's.
class ToTargetId {
 public:
  // Below 0 where the target has no such token.
  virtual int32_t to_target_id(int32_t id) = 0;
  // The same of several ids.
  void to_target_ids(Span<const int32_t> ids, int32_t* theirs) {
    for (size_t at = 0; at < ids.size(); ++at) theirs[at] = to_target_id(ids[at]);
  }

 protected:
  ~ToTargetId() = default;
};

// The target's ids are the drafter's own.
class Itself final : public ToTargetId {
 public:
  int32_t to_target_id(int32_t id) override { return id; }
};

// One of the drafter's ids, and how probable it is.
struct Choice {
  int32_t token;
  double prob;
};

// Finds the choices of rows, with lists that are kept from one to the next.
class Choices {
 public:
  static constexpr size_t kFew = 4;  // choices looked at per position

  // Up to kFew choices for absolute position `position` of the target.
  //
  // Greedy: the probabilities of the model at temperature 1, its confidence. Sampled: with temperature T they are the
  // softmax of logits + T * G, G the noise of that position: its confidence in the token that it would draw here.
  Status find(const HeadView& rows, size_t row, const DrawParams& params, int64_t position, const DrawHistory& history,
              ToTargetId& to_target, std::vector<Choice>* found);

 private:
  void weigh(double temperature);
  void adjust(const DrawParams& params, const DrawHistory& history, ToTargetId& to_target);
  void keyed(const DrawParams& params, double temperature, int64_t position, ToTargetId& to_target,
             std::vector<Choice>* found);
  size_t survivors(const DrawParams& params) const;

  std::vector<double> values_, weights_, times_, surety_;
  std::vector<int32_t> ids_, asked_, theirs_, places_;
  std::vector<size_t> order_;
  DrawScratch scratch_;
  Candidates left_;
};

}  // namespace edgedec::engine
