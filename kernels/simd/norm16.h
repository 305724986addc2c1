// The sum of squares and the factor of a root-mean-square norm, shared by RMSNorm and the head norms of attention.
#pragma once

#include "simd/vec16.h"

namespace edgedec {
namespace {

// 1 / sqrt(mean(x^2) + epsilon) of d elements, in every lane.
template <class V>
EDGEDEC_INLINE V inverse_rms(const float* x, size_t d, float epsilon) {
  V sum = V::broadcast(0.0f);
  size_t i = 0;
  for (; i + kLanes <= d; i += kLanes) sum = V::fma(V::load(x + i), V::load(x + i), sum);
  if (i < d) {
    const V tail = V::load_partial(x + i, d - i);
    sum = V::fma(tail, tail, sum);
  }
  const V mean = V::div(V::broadcast(V::reduce_add(sum)), V::broadcast(static_cast<float>(d)));
  return V::div(V::broadcast(1.0f), V::sqrt(V::add(mean, V::broadcast(epsilon))));
}

}  // namespace
}  // namespace edgedec
