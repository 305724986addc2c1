// The body of QuantLinear on a row's tiles: threads quantise the activations together, then compute columns.
#pragma once

#include <algorithm>

#include "common/parallel.h"
#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {

// Tiles that one task streams: enough that the dispatch costs little, few enough to balance two threads.
int tiles_per_task(const Weight& w);

// The int8 terms of x that a weight reads: `terms`, or none when its format is float.
int int8_terms(const Weight& w, int terms);

// The activations of a parallel section, quantised by its threads together before they read them.
class Activations {
 public:
  // x[m][cols]. With terms = 2 the rows m .. 2m - 1 quantise the errors of the first m, so that both together carry
  // about 15 bits; with terms = 0 only float formats can use the result. The arrays lie in this thread's scratch: they
  // are valid until the next Activations on this thread. False as a condition where there is no memory for them.
  Activations(const Row& row, const float* x, int m, int cols, int terms);
  explicit operator bool() const { return there_; }

  // Quantises pieces that no thread has taken and waits for the others. Call it at the start of every task.
  const Acts& ready();

  // Where the result lies; its contents are there once ready() has returned on any thread.
  const Acts& acts() const { return acts_; }

 private:
  void quantise(size_t first, size_t last);
  void quantise_term(const float* x, size_t first, size_t last, size_t offset);

  const Row& row_;
  const int m_, cols_;
  Acts acts_;
  bool there_ = true;
  float* rest_ = nullptr;  // [m][cols]: the errors of the first terms
  int8_t* q_ = nullptr;
  float* scale_ = nullptr;
  int32_t* sum_ = nullptr;
  float* total_ = nullptr;
  SharedPieces pieces_;
};

// out[m][sum of rows] = x W^T (+ bias) (+ residual). All weights read the same x; bias and residual may be null.
// terms: 1 or 2, as in Activations; two terms read the weights once and compute twice. Float weights ignore them.
void linear(const Row& row, Parallel& threads, const Weight* weights, int count, const float* x, int m,
            int terms, const float* bias, const float* residual, float* out);

}  // namespace edgedec::quant_linear
