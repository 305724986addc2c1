// HeadTopK: the LM head l = W x reduced as it is computed, so that logits are never materialised (unless asked for).
//
// Per row: the k largest logits (value descending, id ascending among equals), logsumexp = log sum exp(l), and the
// entropy -sum p log p in nats, over the whole vocabulary or over the ids in `keep`. A logit that is NaN is no
// candidate, and makes logsumexp and entropy NaN.
//
// Refined, the k largest logits are computed again with their input in two int8 terms (see quant_linear.h), and these
// values stand in the outputs, sums included; the other logits remain those of one term. They stay the k largest: one
// that would fall behind the others is kept just ahead of them. The logits of a float table are exact to begin with, so
// refining leaves them alone.
//
// With a softcap c > 0 every logit l counts, and is given out, as c tanh(l / c).
//
// At a temperature t, logsumexp and entropy are those of l / t; the logits given out remain l.
//
// Sums run over blocks of 1,024 vocabulary entries, inside a block in sixteen lanes in ascending order, block results
// joined in ascending order in double: the same bits for every row of the tables, thread count and number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant_linear/linear.h"

namespace edgedec::head_topk {

constexpr int kBlock = 1024;

struct BlockSums {
  float max;       // of the block's logits
  float sum;       // sum of e = exp(d) with d = (l - max) / t
  float weighted;  // sum of e * d
};

struct Row {
  const char* name;
  BlockSums (*sums)(const float* logits, int n, float inverse);  // inverse = 1 / t
  // Appends the indices of logits >= bound or NaN, ascending; returns how many. `out` holds n.
  int (*above)(const float* logits, int n, float bound, int32_t* out);
  float (*exp)(float x);  // the polynomial of the sums
  void (*softcap)(float* logits, size_t n, float cap);  // in place
};

// The float row (scalar, avx2, avx512) of that name, or nullptr.
const Row* find_row(const char* name);

struct Result {  // r rows
  float* values;       // [r][k], padded with -inf when k exceeds the number of candidates
  int32_t* ids;        // [r][k], padded with -1
  float* logsumexp;    // [r]
  float* entropy;      // [r]
  float* logits;       // [r][rows of the table], or null; entries outside `keep` are -inf
};

// What a row's logits go through.
struct Scale {
  float softcap;  // 0: none
  float inverse;  // 1 / temperature: positive and finite
};

// keep: sorted unique ids inside the table, or null with keep_count = 0 for the whole vocabulary.
void head_topk(const quant_linear::Row& linear, const Row& row, Parallel& threads, const Weight& table,
               const float* x, int r, bool refined, Scale scale, const int64_t* keep, int keep_count, int k,
               const Result& out);

}  // namespace edgedec::head_topk
