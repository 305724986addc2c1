#pragma once

#include "simd/math64.h"
#include "rotary_table/rotary_table.h"

namespace edgedec::rotary_table {
namespace {

// Double arithmetic without fused operations is the same in every row; rows differ only in their compile flags.
void run(const int64_t* positions, const float* inv_freq, float* table, size_t m0, size_t m1, size_t d) {
  const size_t half = d / 2;
  for (size_t m = m0; m < m1; ++m) {
    const auto position = static_cast<double>(positions[m]);
    for (size_t i = 0; i < half; ++i) {
      const SinCos both = sincos_exact(position * static_cast<double>(inv_freq[i]));
      table[m * d + i] = static_cast<float>(both.cos);
      table[m * d + half + i] = static_cast<float>(both.sin);
    }
  }
}

}  // namespace
}  // namespace edgedec::rotary_table
