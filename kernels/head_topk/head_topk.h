// HeadTopK: the LM head l = W x, reduced block by block, so that full rows of logits exist only on request.
//
// Per row: the k largest logits (value descending, id ascending among equals), logsumexp = log sum exp(l), and the
// entropy -sum p log p in nats, over the whole vocabulary or over the ids in `keep`. A NaN logit is never among the k
// largest, and makes logsumexp and entropy NaN.
//
// Refining computes the k largest logits again with their input in two int8 terms (see quant_linear.h) and uses these
// values in all outputs, sums included; the other logits remain those of one term. A refined logit that would fall
// below the others is raised to just above them, so the same k stay the largest. Float tables are not refined: their
// logits are exact.
//
// With a softcap c > 0 every logit l is replaced by c tanh(l / c), in the sums and in the outputs.
//
// At a temperature t, logsumexp and entropy are those of l / t; the logits in the outputs stay l.
//
// Sums run over blocks of 1,024 vocabulary entries: inside a block in sixteen lanes in ascending order; blocks are
// joined in ascending order in double; refined values replace theirs from the largest to the smallest. So the bits are
// the same for every instruction set, number of threads and number of tokens.
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

// Transformations of a row's logits.
struct Scale {
  float softcap;  // 0: none
  float inverse;  // 1 / temperature: positive and finite
};

// keep: sorted unique ids inside the table, or null with keep_count = 0 for the whole vocabulary.
void head_topk(const quant_linear::Row& linear, const Row& row, Parallel& threads, const Weight& table,
               const float* x, int r, bool refined, Scale scale, const int64_t* keep, int keep_count, int k,
               const Result& out);

}  // namespace edgedec::head_topk
