// RotaryTable: table[m, i] = cos(a), table[m, d / 2 + i] = sin(a) with a = double(positions[m]) * double(inv_freq[i]).
//
// Sine and cosine come from simd/math64.h: IEEE double operations only, absolute error below 1e-15 for angles up to
// 2^23, rounded once to float. WGSL has no doubles, so for a GPU the host computes the table of a pass by this
// function and uploads it. Source of the rotation: Su et al., "RoFormer" (2021).
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::rotary_table {

// Rows [m0, m1) of table[*, d]; inv_freq[d / 2]; d even.
using Fn = void (*)(const int64_t* positions, const float* inv_freq, float* table, size_t m0, size_t m1, size_t d);

struct Row {
  const char* name;
  Fn run;
};

// The row of that name, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

}  // namespace edgedec::rotary_table
