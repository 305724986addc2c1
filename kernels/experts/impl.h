// The router's arithmetic and the sum of experts on sixteen lanes, instantiated once per instruction set.
#pragma once

#include "experts/experts.h"
#include "simd/math16.h"

namespace edgedec::experts {
namespace {

template <class V>
void gate(Gating gating, const float* scores, float most, int experts, float* gated) {
  for (int e = 0; e < experts; e += kLanes) {
    const auto n = static_cast<size_t>(experts - e < kLanes ? experts - e : kLanes);
    const V s = V::load_partial(scores + e, n);
    const V g = gating == Gating::kSigmoid ? sigmoid(s) : exp(V::sub(s, V::broadcast(most)));
    g.store_partial(gated + e, n);
  }
}

template <class V>
void add(float weight, const float* from, float* to, size_t n) {
  const V w = V::broadcast(weight);
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t left = n - i < kLanes ? n - i : kLanes;
    V::fma(w, V::load_partial(from + i, left), V::load_partial(to + i, left)).store_partial(to + i, left);
  }
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, gate<V>, add<V>};
}

}  // namespace
}  // namespace edgedec::experts
