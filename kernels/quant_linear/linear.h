// The body of QuantLinear on a row's tiles: threads quantise the activations together, then compute columns.
#pragma once

#include <algorithm>

#include "common/parallel.h"
#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {

// The tasks of a section over `tiles` tiles of `bytes` in all. Each streams enough that its dispatch costs little, and
// every thread gets as many as the others. A task has at most `most_tiles`, and where tiles are read in turns, whole turns.
// For many tokens tasks have whole turns of rows that take two tiles at a time.
class Shares {
 public:
  Shares(const Parallel& threads, size_t tiles, size_t bytes, size_t most_tiles = SIZE_MAX / 2, int tokens = 0);
  size_t count() const { return count_; }
  // The first tile of a task; of the one after the last: the number of tiles.
  size_t first(size_t task) const { return count_ ? std::min(tiles_, turns_ * task / count_ * turn_) : 0; }

 private:
  size_t tiles_, turn_, turns_, count_;  // turn: tiles that stay together
};

// The int8 terms of x that a weight reads: `terms`, or none when its format is float.
int int8_terms(const Weight& w, int terms);

// The activations of a parallel section, quantised by its threads together before they read them.
class Activations {
 public:
  // x[m][cols]. With terms = 2 the rows m .. 2m - 1 quantise the errors of the first m, so that both together carry
  // about 15 bits; with terms = 0 only float formats can use the result. The arrays lie in this thread's scratch: they
  // are valid until the next Activations on this thread. False as a condition where there is no memory for them.
  Activations(const Row& row, const Parallel& threads, const float* x, int m, int cols, int terms);
  explicit operator bool() const { return there_; }

  // Quantises pieces that no thread has taken and waits for the others. Call it at the start of every task.
  const Acts& ready();

  // Where the result lies; its contents are there once ready() has returned on any thread.
  const Acts& acts() const { return acts_; }

 private:
  void quantise(size_t first, size_t last);
  void quantise_term(const float* x, size_t first, size_t last, size_t offset);

  const Row& row_;
  const int cols_;
  const size_t groups_, at_once_;  // to quantise, and in a piece
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
