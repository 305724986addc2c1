#pragma once

#include "simd/norm16.h"
#include "rms_norm/rms_norm.h"

namespace edgedec::rms_norm {
namespace {

template <class V>
void normalise(const float* x, const float* weight, const float* residual, float* y, size_t d, float epsilon) {
  const V factor = inverse_rms<V>(x, d, epsilon);
  const auto element = [&](V a, V w) { return V::mul(V::mul(a, factor), w); };
  size_t i = 0;
  for (; i + kLanes <= d; i += kLanes) {
    V v = element(V::load(x + i), V::load(weight + i));
    if (residual) v = V::add(v, V::load(residual + i));
    v.store(y + i);
  }
  if (i == d) return;
  V v = element(V::load_partial(x + i, d - i), V::load_partial(weight + i, d - i));
  if (residual) v = V::add(v, V::load_partial(residual + i, d - i));
  v.store_partial(y + i, d - i);
}

template <class V>
void run(const float* x, const float* weight, const float* residual, float* y, size_t m0, size_t m1, size_t d,
         float epsilon) {
  for (size_t m = m0; m < m1; ++m)
    normalise<V>(x + m * d, weight, residual ? residual + m * d : nullptr, y + m * d, d, epsilon);
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, run<V>};
}

}  // namespace
}  // namespace edgedec::rms_norm
