// Matrices of F16, BF16 and F32, on sixteen lanes (one per output column), instantiated once per instruction set.
#pragma once

#include "simd/vec16.h"
#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {
namespace {

// The sixteen columns of one input, widened to fp32 exactly.
template <class V>
EDGEDEC_INLINE V widen(F16, const uint8_t* record) {
  return V::load_f16(reinterpret_cast<const uint16_t*>(record));
}
template <class V>
EDGEDEC_INLINE V widen(BF16, const uint8_t* record) {
  return V::load_bf16(reinterpret_cast<const uint16_t*>(record));
}
template <class V>
EDGEDEC_INLINE V widen(F32, const uint8_t* record) {
  return V::load(reinterpret_cast<const float*>(record));
}

// One tile for R tokens from m on, whose accumulators stay in registers.
template <class F, class V, int R>
void float_block(const Weight& w, const Acts& x, int tile, int m, float* out, size_t ldo) {
  const uint8_t* record = w.data + w.tile_bytes() * tile;
  const float* in = x.x + static_cast<size_t>(m) * w.cols;
  V acc[R];
  for (int r = 0; r < R; ++r) acc[r] = V::broadcast(0.0f);
#pragma GCC unroll 4
  for (int k = 0; k < w.cols; ++k, record += F::kBytes) {
    prefetch(record + kAhead<F>);
    const V weights = widen<V>(F{}, record);
    for (int r = 0; r < R; ++r)
      acc[r] = V::fma(V::broadcast(in[static_cast<size_t>(r) * w.cols + k]), weights, acc[r]);
  }
  const int left = w.rows - tile * kTile;
  const auto columns = static_cast<size_t>(left < kTile ? left : kTile);
  for (int r = 0; r < R; ++r) acc[r].store_partial(out + r * ldo, columns);
}

// Tokens [m, m1), as many at a time as registers allow.
template <class F, class V, int R>
EDGEDEC_INLINE void float_tokens(const Weight& w, const Acts& x, int tile, int m, int m1, float* out, size_t ldo) {
  for (; m1 - m >= R; m += R, out += R * ldo) float_block<F, V, R>(w, x, tile, m, out, ldo);
  if constexpr (R > 1)
    if (m < m1) float_tokens<F, V, R - 1>(w, x, tile, m, m1, out, ldo);
}

template <class F, class V>
void float_tiles(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (int tile = tile0; tile < tile1; ++tile, out += kTile)
    float_tokens<F, V, V::kAccumulators>(w, x, tile, m0, m1, out, ldo);
}

}  // namespace
}  // namespace edgedec::quant_linear
