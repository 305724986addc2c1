// Applies logit bias and penalties to logits, before temperature and cuts.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/span.h"
#include "core/params.h"
#include "core/sampling/history.h"

namespace edgedec::engine {

// The adjusted logits of one draw: bias, repetition penalty (Keskar et al. 2019, CTRL: a positive logit is divided by it, a
// negative one multiplied), then frequency and presence penalties. Only the ids of
// `touched` change. A banned token has the logit -inf.
class Adjustment {
 public:
  Adjustment(const DrawParams& params, const DrawHistory& history);

  // Whether there are tokens that cannot be drawn.
  bool bans() const { return bans_; }
  // Whether a logit may become higher than it was.
  bool lifts() const { return lifts_; }

  // The adjusted logit of `token`; `biased`: its id in the bias, if that is another.
  double one(double value, int32_t token, int32_t biased) const;
  double one(double value, int32_t token) const { return one(value, token, token); }

  // Puts the ids whose logits may change into `ids`, each once. They ascend unless there is but a repetition penalty.
  void touched(std::vector<int32_t>* ids) const;

 private:
  const DrawParams& params_;
  const DrawHistory& history_;
  bool bans_ = false, lifts_ = false;
};

}  // namespace edgedec::engine
