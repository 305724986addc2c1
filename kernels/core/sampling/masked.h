// Draws among the tokens that a mask allows.
//
// The mask applies before every warper: p_masked = norm(p * mask), and top-k, top-p and the others cut that. A part of a
// canonical order without some tokens is in canonical order still, so all that Row knows of the vocabulary holds here for
// what is allowed of it; only sums have to be made anew.
#pragma once

#include <vector>

#include "core/sampling/allowed.h"
#include "core/sampling/candidates.h"

namespace edgedec::engine {

// A head row of which `allowed` leaves some tokens. A mask takes long where most tokens may come next, as in a string, and
// one token does not: so there tokens are asked for one by one as long as they are few.
class MaskedRow final : public Row {
 public:
  MaskedRow(const HeadView& rows, size_t row, const DrawParams& params, const DrawHistory& history, Allowed* allowed,
            DrawScratch* scratch)
      : Row(rows, row, params, history, scratch), allowed_(*allowed) {}

  bool complete() const override { return false; }
  void listed(Candidates* found) override;
  bool longer(size_t tried, Candidates* found) override;
  bool leaders(Candidates* found) override;
  void keep_legal(std::vector<int32_t>* ids) override;
  bool total_bounds(double highest, double* low, double* high) override;

 protected:
  const std::vector<double>* all() override;
  bool by_head() const override { return false; }

 private:
  bool permits(int32_t token);
  bool wide();
  bool has_bits();
  // Whether each of the tokens may come next, in order: one by one where that is cheaper than a mask.
  void permitted(const std::vector<int32_t>& ids, std::vector<char>* may);
  void keep_permitted(Candidates* found);
  bool near(Candidates* found);
  bool every(Candidates* found);
  bool whole_at_most(double highest, double* most);

  Allowed& allowed_;
  TokenCounts known_;  // tokens that were asked for one by one: once, or twice where they may come next
  int wide_ = -1;      // -1: not known
  const uint8_t* bits_ = nullptr;
  bool made_ = false;  // whether the lists of all that is allowed are
  size_t near_ = 0;    // prefixes that near() gave
  std::vector<char> may_;
};

}  // namespace edgedec::engine
