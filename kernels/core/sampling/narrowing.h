// The cuts that look at the whole distribution: locally typical, eta, top-H and mirostat, in this order, behind
// top-n-sigma, top-k, top-p and min-p. Each sees the distribution that the steps before it leave, and leaves one token at
// least. The numbers that are compared do not depend on the length of the list.
#pragma once

#include "core/sampling/candidates.h"

namespace edgedec::engine {

// The steps of one draw.
class Narrowing {
 public:
  // `filtered`: whether other cuts went before them; `mirostat`: whether its step is among them.
  Narrowing(const DrawParams& params, bool filtered, bool mirostat, DrawScratch* scratch)
      : params_(params), scratch_(*scratch), filtered_(filtered), mirostat_(mirostat && params.mirostat != 0.0) {}

  // Leaves of `left` what the steps leave; whether it is long enough to tell. `row` may be none where all is filtered.
  bool narrow(Row* row, double temperature, Candidates* left);

 private:
  bool step(Row* row, Candidates* left, double temperature, bool (Narrowing::*cut)(Candidates*));
  bool share(Row* row, const Candidates& left, double temperature);
  double entropy();
  bool keep(Candidates* left, size_t count);

  bool typical(Candidates* left);
  bool eta(Candidates* left);
  bool top_h(Candidates* left);
  bool mirostat(Candidates* left);

  const DrawParams& params_;
  DrawScratch& scratch_;
  bool filtered_;
  const bool mirostat_;
  double bound_ = 0.0;
  // The distribution that a step sees: `complete`: the list is all that the steps before have left.
  bool complete_ = false, entropy_known_ = false;
  double total_ = 0.0, entropy_ = 0.0;
  // Those of the vocabulary.
  bool whole_known_ = false;
  double whole_total_ = 0.0, whole_entropy_ = 0.0;
};

}  // namespace edgedec::engine
