// exp and the activation functions on sixteen lanes: one polynomial for every instruction set, no libm.
#pragma once

#include "simd/math64.h"
#include "simd/vec16.h"

namespace edgedec {
namespace {

// e^x, error below 1 ulp in the normal range. x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q the
// minimax polynomial of degree 4 (relative error of e^r: 3.1e-9); the factor 2^n goes in as two halves, so that
// results below the normal range are rounded once into subnormals, then zero, and those above become infinity.
//
// Of N vectors at a time, step by step, so that none waits for the steps before its own.
template <int N, class V>
EDGEDEC_INLINE void exp_below(V* x) {  // x < 89, or NaN
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer and leaves that in the low bits
  constexpr float kTerms[] = {0x1.123a2p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f};
  V shifted[N], n[N], r[N], q[N];
#define EDGEDEC_EACH _Pragma("GCC unroll 4") for (int i = 0; i < N; ++i)
  EDGEDEC_EACH x[i] = V::max(V::broadcast(-105.0f), x[i]);  // operands in this order pass NaN on
  EDGEDEC_EACH shifted[i] = V::fma(x[i], V::broadcast(0x1.715476p+0f), V::broadcast(kMagic));
  EDGEDEC_EACH n[i] = V::sub(shifted[i], V::broadcast(kMagic));
  EDGEDEC_EACH r[i] = V::fma(n[i], V::broadcast(-0x1.62e43p-1f), x[i]);
  EDGEDEC_EACH r[i] = V::fma(n[i], V::broadcast(0x1.05c61p-29f), r[i]);
  EDGEDEC_EACH q[i] = V::broadcast(0x1.6a23dp-10f);
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) EDGEDEC_EACH q[i] = V::fma(q[i], r[i], V::broadcast(kTerms[t]));
  EDGEDEC_EACH q[i] = V::fma(V::mul(r[i], r[i]), q[i], r[i]);
  EDGEDEC_EACH q[i] = V::add(q[i], V::broadcast(1.0f));
  EDGEDEC_EACH x[i] = times_power(q[i], n[i], V::Ints::sub(V::bits(shifted[i]), V::bits(V::broadcast(kMagic))));
#undef EDGEDEC_EACH
}

template <class V>
EDGEDEC_INLINE V exp(V x) {
  x = V::min(V::broadcast(89.0f), x);
  exp_below<1>(&x);
  return x;
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
