// RMSNorm: y[m, i] = x[m, i] * (1 / sqrt(mean_i(x[m, i]^2) + epsilon)) * weight[i]  (+ residual[m, i])
//
// Lane i of sixteen sums the squares of elements i, i + 16, ... in ascending order, one fused multiply-add each; the
// lanes fold 16 -> 8 -> 4 -> 2 -> 1. Then one division by d, one addition, one square root, one division; per element
// two multiplications from left to right and the residual's plain addition. A row does not depend on others.
// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
#pragma once

#include <cstddef>

namespace edgedec::rms_norm {

// Rows [m0, m1) of x, residual and y, each [*, d] and dense. residual may be null. y may be x or residual.
using Fn = void (*)(const float* x, const float* weight, const float* residual, float* y, size_t m0, size_t m1,
                    size_t d, float epsilon);

struct Row {
  const char* name;
  Fn run;
};

// The row of that name, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

}  // namespace edgedec::rms_norm
