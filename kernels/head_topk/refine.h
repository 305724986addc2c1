// Refines the k largest logits: computes them again with the input in two int8 terms (about 15 bits) instead of one.
//
// The next token and its probability depend on few logits. Computing only these again costs less than 1 % of the head;
// a second term for all logits would double its cost. The first pass alone decides which entries are refined, so the
// result does not depend on the instruction set, the threads or other tokens.
#pragma once

#include <algorithm>

#include "head_topk/head_topk.h"

namespace edgedec::head_topk {

struct Candidate {
  float value;
  int32_t id;
};

// The largest logits of a row.
struct Best {
  Candidate* all;
  size_t count;

  Candidate* begin() const { return all; }
  Candidate* end() const { return all + count; }
};

// Sums over all logits l of a row of exp(d) and of exp(d) * d, with d = (l - base) / temperature.
struct RowSums {
  float base;
  double sum, weighted;
};

// d of a difference of logits. It is bounded below, so that d * exp(d) is 0 and not NaN for -inf. NaN stays NaN.
inline float scaled(float difference, float inverse) { return std::max(difference * inverse, -1e30f); }

// Joins the sums of a row's blocks, in ascending order; sums_of(b): those of block b.
template <class F>
RowSums join(const Row& row, int blocks, float inverse, const F& sums_of) {
  float top = -__builtin_inff();
  for (int b = 0; b < blocks; ++b) top = std::max(top, sums_of(b).max);
  double sum = 0.0, weighted = 0.0;
  for (int b = 0; b < blocks; ++b) {
    const BlockSums& part = sums_of(b);
    const float shift = scaled(part.max - top, inverse);
    const double factor = row.exp(shift);
    sum += factor * part.sum;
    weighted += factor * (static_cast<double>(part.weighted) + static_cast<double>(shift) * part.sum);
  }
  return {top, sum, weighted};
}

// The order of a row's entries: the larger logit first, the lower id among equals.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// The logit of entry id for token m of acts; the second half of acts holds the second terms.
float two_term_logit(const quant_linear::Row& linear, const Weight& table, const Acts& acts, int m, int32_t id);

// The least value that a refined logit may have: just above the smallest of `best`, which no other entry exceeds, so
// that the k largest stay the k largest. -inf when there are no other entries.
float floor_of(const Best& best, int others);

// The value of a candidate after refining: its two-term logit `fine`, not below `floor`; its coarse value where that is
// not finite.
float settled(const Row& row, float coarse, float fine, float floor, float softcap);

// Replaces the values of `best` (the largest logits of a row) by `fine`, in the sums too. The `others` other entries of
// the row keep their values. The bits of the sums depend on the order of `best`.
void replace(const Row& row, const Best& best, const float* fine, int others, float inverse, RowSums& sums);

// Writes `best`, sorted by this call, and the sums of a row as row r of the result.
void write(const Best& best, const RowSums& sums, float inverse, int k, const Result& out, int r);

}  // namespace edgedec::head_topk
