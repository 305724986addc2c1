// The activation on sixteen lanes, instantiated once per instruction set.
#pragma once

#include "simd/math16.h"
#include "gated_mlp/gated_mlp.h"

namespace edgedec::gated_mlp {
namespace {

template <class V>
void activate_rows(Activation act, const float* gate, const float* up, size_t ldi, int m, int columns, float* out,
                   size_t ldo) {
  for (int i = 0; i < m; ++i, gate += ldi, up += ldi, out += ldo)
    for (int c = 0; c < columns; c += kLanes) {
      const size_t n = static_cast<size_t>(columns - c < kLanes ? columns - c : kLanes);
      const V g = V::load_partial(gate + c, n), u = V::load_partial(up + c, n);
      const V a = act == Activation::kSilu ? silu(g) : act == Activation::kGeluTanh ? gelu_tanh(g) : sigmoid(g);
      V::mul(a, u).store_partial(out + c, n);
    }
}

}  // namespace
}  // namespace edgedec::gated_mlp
