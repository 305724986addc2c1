// The tokens that a draw can look at: edgedec/sampling/candidates.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"
#include "core/sampling/adjustment.h"

namespace edgedec::engine {

// A prefix, in canonical order, of the adjusted vocabulary; `complete` when it is all of it. Banned tokens are left out.
struct Candidates {
  std::vector<double> values;
  std::vector<int32_t> ids;
  bool complete = false;

  size_t size() const { return ids.size(); }
  void clear();
  void add(double value, int32_t id);
  // Keeps the first `count`.
  void cut(size_t count);
};

// The lists of a draw, kept from one to the next so that most draws allocate nothing.
struct DrawScratch {
  std::vector<double> whole;       // the adjusted row
  std::vector<double> selected;    // numbers of a row among which its largest end
  std::vector<double> scaled, weights, far;
  std::vector<int32_t> touched, order, spare;
  Candidates listed, kept, lifted;

  // Bytes that its lists hold.
  size_t bytes() const;
};

// One head row under given parameters; the whole row is touched only when a property needs it.
//
// Where logits are not numbers, or no token is left, what would need them is unknown, and `lacking` says why.
class Row {
 public:
  Row(const HeadRows& rows, size_t row, const DrawParams& params, const DrawHistory& history, DrawScratch* scratch);

  // Finds the temperature.
  Status begin();

  double temperature() const { return temperature_; }
  // Most bits of surprise that mirostat allows.
  double bound() const { return bound_; }
  bool has_logits() const { return !rows_.logits.empty(); }
  // Tokens in the vocabulary; only for rows with logits.
  size_t size() const { return rows_.vocabulary; }
  // Whether the head's list is all of the vocabulary.
  bool complete() const { return has_logits() && size() == rows_.k; }
  const float* logits() const { return rows_.logits.data() + row_ * rows_.vocabulary; }

  // The head's list: adjusted logits and ids, as far as their order is sure.
  void listed(Candidates* found);
  // The `size` best of the whole row and all equal to the last of them; whether they could be had.
  bool from_row(size_t size, Candidates* found);
  // A prefix of at least one token that takes little sorting; whether it could be had.
  bool leaders(Candidates* found);
  // The adjusted logit of any token; only for rows with logits.
  double value_of(int32_t id) const;

  // The following return whether the number can be had.
  // Lowest logit kept by top-n-sigma: max - n * std over the whole vocabulary.
  bool sigma_cut(double* cut);
  // Sum of exp((logit - highest) / T) over the whole vocabulary: the head's own sum where that is at this temperature.
  bool total(double highest, double* total);
  // Entropy in nats of the whole vocabulary.
  bool entropy(double highest, double* entropy);
  // Two numbers between which `total` lies, mostly without reading the whole row.
  bool total_bounds(double highest, double* low, double* high);

  // Says why a number or a prefix cannot be had.
  Status lacking() const;

 private:
  bool numbers();
  bool whole();
  bool corrected(double* sum);
  bool by_head() const { return !adjusts_ && temperature_ == rows_.temperature; }
  double logsumexp() const { return static_cast<double>(rows_.logsumexp[row_]); }
  void add_lifted(double floor, size_t listed, Candidates* found);
  void sum_up(double highest, double* total, double* mean);

  const HeadRows& rows_;
  const size_t row_;
  const DrawParams& params_;
  Adjustment adjustment_;
  DrawScratch& scratch_;
  const bool adjusts_;
  double temperature_ = 0.0, bound_ = 0.0;
  bool numbers_ = false, whole_ = false;  // what is known and made
  Status error_;
};

}  // namespace edgedec::engine
