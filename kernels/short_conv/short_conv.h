// ShortConv: a gated short convolution for T tokens that form a tree below the tokens of a sequence.
//
//   p[c]   = b[c] x[c]                                  the token's row of the trail, of recurrent/steps.h
//   y[c]   = sum over the taps of w[c][tap] p[c]        from 0, ascending, one fused multiply-add each; along the token's
//                                                       path, the last tap meets the token itself
//   out[c] = g[c] y[c]
//
// There is no state but the trail. So an output depends on the last tokens of its path only, and its bits do not
// depend on passes, strips, threads or the instruction set.
#pragma once

#include "common/parallel.h"
#include "recurrent/steps.h"

namespace edgedec::short_conv {

struct Config {
  size_t hidden;  // a multiple of 16
  size_t taps;
};

// A sequence. one.tokens_at are its products [tokens][hidden], which a strip computes first.
struct Job {
  recurrent::Sequence one;
  const float* projected;  // [tokens][b | g | x]
  float *products, *out;   // [tokens][hidden]
};

// Columns [c0, c1) of a sequence, multiples of 16, and of its trail; room: (c1 - c0) * taps floats.
using StripFn = void (*)(const Config& config, const float* conv, const Job& job, const recurrent::Walk& walk, size_t c0,
                         size_t c1, float* room);

struct Row {
  const char* name;
  StripFn strip;
};

// The row of that name, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

// Computes sequences that have no problem; conv: [hidden][taps].
void run(const Row& row, Parallel& threads, const Config& config, const float* conv, const Job* jobs, size_t count);

// The error in the sizes, in one line, or nullptr.
const char* problem(const Config& config);

}  // namespace edgedec::short_conv
