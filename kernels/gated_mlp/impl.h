// The activation on sixteen lanes, instantiated once per instruction set.
#pragma once

#include "simd/math16.h"
#include "gated_mlp/gated_mlp.h"

namespace edgedec::gated_mlp {
namespace {

// min(gate, 7) sigmoid(1.702 min(gate, 7)) (clamp(up) + 1); operands are in the order that passes NaN on.
template <class V>
EDGEDEC_INLINE V clamped_silu(V gate, V up) {
  const V limit = V::broadcast(7.0f), one = V::broadcast(1.0f);
  const V g = V::min(limit, gate), u = V::max(V::broadcast(-7.0f), V::min(limit, up));
  return V::mul(V::div(g, V::add(one, exp(V::mul(g, V::broadcast(-1.702f))))), V::add(u, one));
}

template <class V>
EDGEDEC_INLINE V activated(Activation act, V gate, V up) {
  switch (act) {
    case Activation::kSilu: return V::mul(silu(gate), up);
    case Activation::kGeluTanh: return V::mul(gelu_tanh(gate), up);
    case Activation::kClampedSilu: return clamped_silu(gate, up);
    case Activation::kSigmoid: return V::mul(sigmoid(gate), up);
  }
  return up;
}

template <class V>
void activate_rows(Activation act, const float* gate, const float* up, size_t ldi, int m, int columns, float* out,
                   size_t ldo) {
  for (int i = 0; i < m; ++i, gate += ldi, up += ldi, out += ldo)
    for (int c = 0; c < columns; c += kLanes) {
      const size_t n = static_cast<size_t>(columns - c < kLanes ? columns - c : kLanes);
      activated(act, V::load_partial(gate + c, n), V::load_partial(up + c, n)).store_partial(out + c, n);
    }
}

}  // namespace
}  // namespace edgedec::gated_mlp
