// Next tokens of a draft model, best first, under the noise that the target will use: edgedec/draft/choices.py.
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
  Status find(const HeadRows& rows, size_t row, const DrawParams& params, int64_t position, const DrawHistory& history,
              ToTargetId& to_target, std::vector<Choice>* found);

  // Those of logits that are adjusted already, the best first, at the temperature of `params`.
  void draw(Span<const double> values, Span<const int32_t> ids, const DrawParams& params, int64_t position,
            ToTargetId& to_target, std::vector<Choice>* found);
  // How many of these logits, the best first, can be drawn at most: `to_target` of draw() hears of no others.
  size_t drawable(Span<const double> values, const DrawParams& params);

 private:
  void weigh(double temperature);
  void adjust(const DrawParams& params, const DrawHistory& history, ToTargetId& to_target);
  void keyed(const DrawParams& params, double temperature, int64_t position, ToTargetId& to_target,
             std::vector<Choice>* found);
  size_t survivors(const DrawParams& params) const;

  std::vector<double> values_, weights_, times_, surety_;
  std::vector<int32_t> ids_, theirs_, places_;
  std::vector<size_t> order_;
  DrawScratch scratch_;
  Candidates left_;
};

}  // namespace edgedec::engine
