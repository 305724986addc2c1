// The second look at the k largest logits, with the input in two int8 terms (about 15 bits) instead of one.
//
// Which token wins, and with what probability, hangs on few logits; computing those again costs less than a hundredth
// of the head, where two terms for all of them cost as much as the first pass. Which entries are looked at again
// follows from the first pass alone, so the result does not depend on instruction set, threads or neighbours either.
#pragma once

#include <algorithm>
#include <vector>

#include "head_topk/head_topk.h"

namespace edgedec::head_topk {

struct Candidate {
  float value;
  int32_t id;
};

// Sums over all logits l of a row, with d = (l - base) / temperature: of exp(d), and of exp(d) * d.
struct RowSums {
  float base;
  double sum, weighted;
};

// d of a difference of logits. The least of them times its exp is 0 and not NaN; a difference that is NaN stays one.
inline float scaled(float difference, float inverse) { return std::max(difference * inverse, -1e30f); }

// The logit of entry id for token m of acts, whose second half is the second terms.
float two_term_logit(const quant_linear::Row& linear, const Weight& table, const Acts& acts, int m, int32_t id);

// Refined values are raised to this, so that the k largest stay the k largest: just above the least of them, which no
// other entry exceeds. Without others there is no floor.
float floor_of(const std::vector<Candidate>& best, int others);

// Replaces the values of `best` (the largest logits of a row, in any order) by `fine` in its sums; the other entries
// of the row, of which there are `others`, stay as they were.
void replace(const Row& row, std::vector<Candidate>& best, const float* fine, int others, float inverse,
             RowSums& sums);

}  // namespace edgedec::head_topk
