// The op bodies that stand on a row's tiles: quantising once, splitting the columns over threads.
#pragma once

#include <algorithm>

#include "common/parallel.h"
#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {

// Tiles that one task streams: enough bytes to make the dispatch negligible, few enough to balance two threads.
int tiles_per_task(const Weight& w);

// How many int8 terms of x a weight reads when it may have `terms`: none when it holds floats.
int int8_terms(const Weight& w, int terms);

// Quantises x[m][cols] into this thread's scratch; valid until its next call on this thread. With terms = 2 the rows
// m .. 2m - 1 quantise what the first m miss, so that both together carry about 15 bits; with terms = 0 only float
// formats can use the result.
Acts quantise(const Row& row, Parallel& threads, const float* x, int m, int cols, int terms);

// out[m][sum of rows] = x W^T (+ bias) (+ residual). weights share x; bias and residual may be null. terms: 1 or 2 as
// in quantise; two terms read the weights once and compute twice. They change nothing for float weights.
void linear(const Row& row, Parallel& threads, const Weight* weights, int count, const float* x, int m,
            int terms, const float* bias, const float* residual, float* out);

}  // namespace edgedec::quant_linear
