// A depthwise convolution along a path.
#pragma once

#include "recurrent/steps.h"
#include "simd/vec16.h"

namespace edgedec::recurrent {
namespace {

template <size_t Taps>
EDGEDEC_INLINE void transpose_as(const float* from, size_t n, float* to) {
  for (size_t c = 0; c < n; ++c)
    for (size_t tap = 0; tap < Taps; ++tap) to[tap * n + c] = from[c * Taps + tap];
}

// [n][taps] -> [taps][n]
inline void transpose(const float* from, size_t n, size_t taps, float* to) {
  if (taps == 4) return transpose_as<4>(from, n, to);
  if (taps == 3) return transpose_as<3>(from, n, to);
  for (size_t c = 0; c < n; ++c)
    for (size_t tap = 0; tap < taps; ++tap) to[tap * n + c] = from[c * taps + tap];
}

// use(c, y) with the sums y over the taps of conv[tap][c] rows[tap][first + c], ascending from 0, one fused multiply-add
// each; n is a multiple of 16.
template <class V, class Use>
EDGEDEC_INLINE void convolve(const float* const* rows, size_t first, size_t n, const float* conv, size_t taps, Use use) {
  for (size_t c = 0; c < n; c += kLanes) {
    V y = V::broadcast(0.0f);
    for (size_t tap = 0; tap < taps; ++tap) y = V::fma(V::load(conv + tap * n + c), V::load(rows[tap] + first + c), y);
    use(c, y);
  }
}

}  // namespace
}  // namespace edgedec::recurrent
