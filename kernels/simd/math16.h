// exp and the activation functions on sixteen lanes: one polynomial for every instruction set, no libm.
#pragma once

#include "simd/math64.h"
#include "simd/vec16.h"

namespace edgedec {
namespace {

// e^x, error below 1 ulp in the normal range. x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q the
// minimax polynomial of degree 4 (relative error of e^r: 3.1e-9); the factor 2^n goes in as two halves, so that
// results below the normal range are rounded once into subnormals, then zero, and those above become infinity.
template <class V>
EDGEDEC_INLINE V exp(V x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer and leaves that in the low bits
  x = V::min(V::broadcast(89.0f), V::max(V::broadcast(-105.0f), x));  // operands in this order pass NaN on
  const V shifted = V::fma(x, V::broadcast(0x1.715476p+0f), V::broadcast(kMagic));
  const V n = V::sub(shifted, V::broadcast(kMagic));
  V r = V::fma(n, V::broadcast(-0x1.62e43p-1f), x);
  r = V::fma(n, V::broadcast(0x1.05c61p-29f), r);
  V q = V::broadcast(0x1.6a23dp-10f);
  q = V::fma(q, r, V::broadcast(0x1.123a2p-7f));
  q = V::fma(q, r, V::broadcast(0x1.5558f2p-5f));
  q = V::fma(q, r, V::broadcast(0x1.555492p-3f));
  q = V::fma(q, r, V::broadcast(0x1.fffffcp-2f));
  const V p = V::add(V::fma(V::mul(r, r), q, r), V::broadcast(1.0f));
  using I = typename V::Ints;
  const I power = I::sub(V::bits(shifted), V::bits(V::broadcast(kMagic)));
  const I half = I::template shift_right<1>(power), bias = I::broadcast(127);
  const V scale0 = V::from_bits(I::template shift_left<23>(I::add(half, bias)));
  const V scale1 = V::from_bits(I::template shift_left<23>(I::add(I::sub(power, half), bias)));
  return V::mul(V::mul(p, scale0), scale1);
}

// x / (1 + e^-x)
template <class V>
EDGEDEC_INLINE V silu(V x) {
  const V one = V::broadcast(1.0f);
  return V::div(x, V::add(one, exp(V::sub(V::broadcast(0.0f), x))));
}

// 1 / (1 + e^(-x)).
template <class V>
EDGEDEC_INLINE V sigmoid(V x) {
  const V one = V::broadcast(1.0f);
  return V::div(one, V::add(one, exp(V::sub(V::broadcast(0.0f), x))));
}

// x / 2 (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), written as x / (1 + e^(-2u)).
template <class V>
EDGEDEC_INLINE V gelu_tanh(V x) {
  const V one = V::broadcast(1.0f);
  const V cubic = V::fma(V::mul(x, x), V::broadcast(0.044715f), one);
  const V minus_two_u = V::mul(V::mul(x, V::broadcast(-1.5957691216057308f)), cubic);
  return V::div(x, V::add(one, exp(minus_two_u)));
}

// 1 - 2 / (1 + e^(2x)), absolute error below 2e-7.
template <class V>
EDGEDEC_INLINE V tanh(V x) {
  const V one = V::broadcast(1.0f);
  return V::sub(one, V::div(V::broadcast(2.0f), V::add(one, exp(V::add(x, x)))));
}

// cap * tanh(x / cap): nearly x near zero, never beyond cap.
template <class V>
EDGEDEC_INLINE V softcap(V x, V cap) {
  return V::mul(cap, tanh(V::div(x, cap)));
}

// The same for n floats in place.
template <class V>
EDGEDEC_INLINE void softcap_all(float* x, size_t n, float cap) {
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t left = n - i < kLanes ? n - i : kLanes;
    softcap(V::load_partial(x + i, left), V::broadcast(cap)).store_partial(x + i, left);
  }
}

}  // namespace
}  // namespace edgedec
