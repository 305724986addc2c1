// The ops of encoders that work on rows of floats. A row, or a text, does not depend on others.
//
// LayerNorm: v = x + added (where there is one); y = (v - mean) * (1 / sqrt(variance + epsilon)) * weight (+ bias)
//   Lane i of sixteen sums the elements i, i + 16, ... in ascending order, and then the squares of v - mean, one fused
//   multiply-add each; the lanes fold 16 -> 8 -> 4 -> 2 -> 1. Plain divisions by d; per element two multiplications
//   from left to right and a plain addition. Source: Ba et al., "Layer Normalization" (2016).
//
// Activate: y = f(x) (* factor), with f one of
//   gelu       max(x, 0) - |x| t, t the chance that a normal variable lies above |x|: e^(-x^2 / 2) times a polynomial of
//              degree 5 in 1 / (1 + p |x|), error below 2e-7 |x|. Source: Abramowitz and Stegun, 7.1.26.
//   gelu_tanh, silu, tanh, sigmoid, relu   as in simd/math16.h; relu = max(0, x)
//
// Pool: a text's rows become one: their mean (sums in ascending order of rows, one division), the first, or the last.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::encoder {

enum class Function { kGelu, kGeluTanh, kSilu, kTanh, kSigmoid, kRelu, kCount };
enum class Pooling { kMean, kFirst, kLast, kCount };

// Rows [m0, m1) of x, added and y, each [*, d] and dense. added and bias may be null. y may be x or added.
using NormFn = void (*)(const float* x, const float* added, const float* weight, const float* bias, float* y, size_t m0,
                        size_t m1, size_t d, float epsilon);
// n elements; factor may be null. y may be x or factor.
using ActivateFn = void (*)(Function f, const float* x, const float* factor, float* y, size_t n);
// Rows [first, end) of x[*, d], at least one, become y[d].
using PoolFn = void (*)(Pooling pooling, const float* x, size_t first, size_t end, size_t d, float* y);

struct Row {
  const char* name;
  NormFn norm;
  ActivateFn activate;
  PoolFn pool;
};

// The row of that name, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

// The index of a name in Function or Pooling, or its kCount.
Function function_named(const char* name);
Pooling pooling_named(const char* name);

// Whether offsets[texts + 1] cut `tokens` rows into texts of at least one row each.
bool cuts(const int64_t* offsets, size_t numbers, size_t tokens);

}  // namespace edgedec::encoder
