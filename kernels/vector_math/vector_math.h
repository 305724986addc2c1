// The lane operations and functions of simd/vec16.h and simd/math16.h, applied to arrays, so that tests can compare
// every row with a reference and with the other rows. No model uses this op.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::vector_math {

// y[i] = f(x[i]) for n elements.
using MapFn = void (*)(const float* x, float* y, size_t n);
// y[i] = f(a[i], b[i], c[i]) for the n elements, a multiple of 16.
using CombineFn = void (*)(const float* a, const float* b, const float* c, float* y, size_t n);

struct Row {
  const char* name;
  MapFn exp, silu, gelu_tanh, tanh, sqrt, abs, round, to_ints;  // to_ints: to int32 and back
  CombineFn add, sub, mul, div, fma, max, min, greater;    // greater: 1 where a > b, else 0
  MapFn reduce_add, reduce_add_each, reduce_max;           // n a multiple of 256: y[i] from x[16i .. 16i + 15]
  void (*to_half)(const float* x, uint16_t* y, size_t n);    // n a multiple of 16
  void (*from_half)(const uint16_t* x, float* y, size_t n);  // n a multiple of 16
  void (*log)(const double* x, double* y, size_t n);
  void (*sincos)(const double* x, double* sine, double* cosine, size_t n);
};

const Row* find_row(const char* name);

}  // namespace edgedec::vector_math
