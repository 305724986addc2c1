// The tokens that a draw can look at: the head's k best, or as much of a whole row as it takes.
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
  std::vector<double> legal;       // adjusted logits of what a mask allows
  std::vector<int32_t> touched, order, spare, allowed;
  Candidates listed, kept, lifted;

  // Bytes that its lists hold.
  size_t bytes() const;
};

// The order of all lists: value descending, id ascending among equal values. Arithmetic is in double and in a fixed order,
// so that a cut does not depend on how much of the vocabulary was at hand when it was decided.
//
// One head row under given parameters; the whole row is touched only when a property needs it.
//
// Where logits are not numbers, or no token is left, what would need them is unknown, and `lacking` says why.
class Row {
 public:
  Row(const HeadView& rows, size_t row, const DrawParams& params, const DrawHistory& history, DrawScratch* scratch);
  virtual ~Row() = default;

  // Finds the temperature.
  Status begin();

  double temperature() const { return temperature_; }
  // Most bits of surprise that mirostat allows.
  double bound() const { return bound_; }
  bool has_logits() const { return rows_.logits != nullptr; }
  // Tokens in the vocabulary; only for rows with logits.
  size_t size() const { return rows_.vocabulary; }
  // Whether the head's list is all of the vocabulary.
  virtual bool complete() const { return has_logits() && size() == rows_.k; }
  const float* logits() const { return rows_.row_of_logits(row_); }

  // The head's list: adjusted logits and ids, as far as their order is sure.
  virtual void listed(Candidates* found);
  // A prefix out of the whole row, longer than those before, of which there were `tried`; whether there is one.
  virtual bool longer(size_t tried, Candidates* found);
  // A prefix of at least one token that takes little sorting; whether it could be had.
  virtual bool leaders(Candidates* found);
  // Leaves those of `ids`, which ascend, that may be drawn.
  virtual void keep_legal(std::vector<int32_t>*) {}
  // The adjusted logit of any token; only for rows with logits.
  double value_of(int32_t id) const;

  // The following return whether the number can be had.
  // Lowest logit kept by top-n-sigma (Tang et al. 2024): max - n * std over the whole vocabulary.
  bool sigma_cut(double* cut);
  // Sum of exp((logit - highest) / T) over the whole vocabulary: the head's own sum where that is at this temperature.
  bool total(double highest, double* total);
  // Entropy in nats of the whole vocabulary.
  bool entropy(double highest, double* entropy);
  // Two numbers between which `total` lies, mostly without reading the whole row.
  virtual bool total_bounds(double highest, double* low, double* high);

  // Says why a number or a prefix cannot be had.
  Status lacking() const;

 protected:
  // Whether the row's logits are numbers.
  bool numbers();
  // The adjusted logits of all that may be drawn, in the order of their ids; null where they cannot be had.
  virtual const std::vector<double>* all() { return whole() ? &scratch_.whole : nullptr; }
  // Whether the head's own sums are those of this row.
  virtual bool by_head() const { return !adjusts_ && temperature_ == rows_.temperature; }
  bool corrected(double* sum);
  double logsumexp() const { return static_cast<double>(rows_.logsumexp[row_]); }

  const HeadView rows_;
  const size_t row_;
  const DrawParams& params_;
  Adjustment adjustment_;
  DrawScratch& scratch_;
  const bool adjusts_;
  double temperature_ = 0.0, bound_ = 0.0;
  Status error_;

 private:
  bool whole();
  bool from_row(size_t size, Candidates* found);
  void add_lifted(double floor, size_t listed, Candidates* found);
  bool sum_up(double highest, double* total, double* mean);

  bool numbers_ = false, whole_ = false;  // what is known and made
};

}  // namespace edgedec::engine
