#pragma once

#include "encoder/encoder.h"
#include "simd/math16.h"

namespace edgedec::encoder {
namespace {

template <class V>
EDGEDEC_INLINE V load_up_to(const float* p, size_t n) {
  return n >= kLanes ? V::load(p) : V::load_partial(p, n);
}

// Lanes from n on become zero.
template <class V>
EDGEDEC_INLINE V first_lanes(V v, size_t n) {
  if (n >= kLanes) return v;
  float room[kLanes] = {};
  v.store_partial(room, n);
  return V::load(room);
}

template <class V>
EDGEDEC_INLINE void store_up_to(V v, float* p, size_t n) {
  n >= kLanes ? v.store(p) : v.store_partial(p, n);
}

template <class V>
void normalise(const float* x, const float* added, const float* weight, const float* bias, float* y, size_t d,
               float epsilon) {
  const V count = V::broadcast(static_cast<float>(d));
  V sum = V::broadcast(0.0f);
  for (size_t i = 0; i < d; i += kLanes) {
    V v = load_up_to<V>(x + i, d - i);
    if (added) v = V::add(v, load_up_to<V>(added + i, d - i));
    store_up_to(v, y + i, d - i);
    sum = V::add(sum, v);
  }
  const V mean = V::div(V::broadcast(V::reduce_add(sum)), count);
  V squares = V::broadcast(0.0f);
  for (size_t i = 0; i < d; i += kLanes) {
    const V v = first_lanes(V::sub(load_up_to<V>(y + i, d - i), mean), d - i);
    squares = V::fma(v, v, squares);
  }
  const V variance = V::div(V::broadcast(V::reduce_add(squares)), count);
  const V factor = V::div(V::broadcast(1.0f), V::sqrt(V::add(variance, V::broadcast(epsilon))));
  for (size_t i = 0; i < d; i += kLanes) {
    const V v = V::sub(load_up_to<V>(y + i, d - i), mean);
    V out = V::mul(V::mul(v, factor), load_up_to<V>(weight + i, d - i));
    if (bias) out = V::add(out, load_up_to<V>(bias + i, d - i));
    store_up_to(out, y + i, d - i);
  }
}

template <class V>
void norm(const float* x, const float* added, const float* weight, const float* bias, float* y, size_t m0, size_t m1,
          size_t d, float epsilon) {
  for (size_t m = m0; m < m1; ++m)
    normalise<V>(x + m * d, added ? added + m * d : nullptr, weight, bias, y + m * d, d, epsilon);
}

template <class V>
EDGEDEC_INLINE V gelu(V x) {
  const V zero = V::broadcast(0.0f), one = V::broadcast(1.0f), size = V::abs(x);
  // p / sqrt(2), and half of the coefficients.
  const V t = V::div(one, V::fma(size, V::broadcast(0.23164189f), one));
  V tail = V::broadcast(0.5307027145f);
  tail = V::fma(tail, t, V::broadcast(-0.7265760135f));
  tail = V::fma(tail, t, V::broadcast(0.7107068705f));
  tail = V::fma(tail, t, V::broadcast(-0.142248368f));
  tail = V::fma(tail, t, V::broadcast(0.127414796f));
  tail = V::mul(tail, t);
  // Beyond 14 the tail is nothing, and an infinite x times it would be no number.
  const V bounded = V::min(V::broadcast(14.0f), size);
  const V chance = V::mul(tail, exp(V::mul(V::mul(bounded, bounded), V::broadcast(-0.5f))));
  return V::sub(V::max(zero, x), V::mul(bounded, chance));
}

template <class V>
EDGEDEC_INLINE V relu(V x) {
  return V::max(V::broadcast(0.0f), x);
}

template <class V, class F>
EDGEDEC_INLINE void each(const float* x, const float* factor, float* y, size_t n, F f) {
  for (size_t i = 0; i < n; i += kLanes) {
    V v = f(load_up_to<V>(x + i, n - i));
    if (factor) v = V::mul(v, load_up_to<V>(factor + i, n - i));
    store_up_to(v, y + i, n - i);
  }
}

template <class V>
void activate(Function f, const float* x, const float* factor, float* y, size_t n) {
  switch (f) {
    case Function::kGelu: return each<V>(x, factor, y, n, [](V v) { return gelu(v); });
    case Function::kGeluTanh: return each<V>(x, factor, y, n, [](V v) { return gelu_tanh(v); });
    case Function::kSilu: return each<V>(x, factor, y, n, [](V v) { return silu(v); });
    case Function::kTanh: return each<V>(x, factor, y, n, [](V v) { return tanh(v); });
    case Function::kSigmoid: return each<V>(x, factor, y, n, [](V v) { return sigmoid(v); });
    default: return each<V>(x, factor, y, n, [](V v) { return relu(v); });
  }
}

template <class V>
void pool(Pooling pooling, const float* x, size_t first, size_t end, size_t d, float* y) {
  if (pooling == Pooling::kFirst) end = first + 1;
  if (pooling == Pooling::kLast) first = end - 1;
  const V count = V::broadcast(static_cast<float>(end - first));
  for (size_t i = 0; i < d; i += kLanes) {
    V sum = load_up_to<V>(x + first * d + i, d - i);
    for (size_t m = first + 1; m < end; ++m) sum = V::add(sum, load_up_to<V>(x + m * d + i, d - i));
    store_up_to(V::div(sum, count), y + i, d - i);
  }
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, norm<V>, activate<V>, pool<V>};
}

}  // namespace
}  // namespace edgedec::encoder
