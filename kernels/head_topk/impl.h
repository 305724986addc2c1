// Block reductions on sixteen lanes, instantiated once per instruction set.
#pragma once

#include "simd/math16.h"
#include "head_topk/head_topk.h"

namespace edgedec::head_topk {
namespace {

template <class V>
BlockSums block_sums(const float* logits, int n, float inverse) {
  const V lowest = V::broadcast(-__builtin_inff());
  const int whole = n / kLanes * kLanes;
  float tail[kLanes];
  for (int i = 0; i < kLanes; ++i) tail[i] = whole + i < n ? logits[whole + i] : -__builtin_inff();
  V top = lowest;
  for (int i = 0; i < whole; i += kLanes) top = V::max(V::load(logits + i), top);
  top = V::max(V::load(tail), top);
  const float max = V::reduce_max(top);
  const V shift = V::broadcast(max), factor = V::broadcast(inverse);
  V sum = V::broadcast(0.0f), weighted = sum;
  const auto add = [&](const V& l) {
    // A lane past the end is -inf: its exp is 0, and the clamp avoids 0 * -inf, which is NaN. With the operands in this
    // order a NaN logit stays NaN and shows in all three sums.
    const V d = V::max(V::broadcast(-1e30f), V::mul(V::sub(l, shift), factor)), e = exp(d);
    sum = V::add(sum, e);
    weighted = V::fma(e, d, weighted);
  };
  for (int i = 0; i < whole; i += kLanes) add(V::load(logits + i));
  if (whole < n) add(V::load(tail));
  return {max, V::reduce_add(sum), V::reduce_add(weighted)};
}

template <class V>
int indices_above(const float* logits, int n, float bound, int32_t* out) {
  const V limit = V::broadcast(bound);
  int count = 0;
  for (int i = 0; i < n; i += kLanes) {
    const int left = n - i < kLanes ? n - i : kLanes;
    // For numbers "greater or equal" is "not (bound > l)". NaN is included; the caller drops it.
    uint32_t below = V::greater_bits(limit, V::load_partial(logits + i, static_cast<size_t>(left)));
    for (uint32_t bits = ~below & (0xffffu >> (kLanes - left)); bits; bits &= bits - 1)
      out[count++] = i + __builtin_ctz(bits);
  }
  return count;
}

template <class V>
float exp_one(float x) {
  float lane[kLanes];
  exp(V::broadcast(x)).store(lane);
  return lane[0];
}

template <class V>
void softcap_row(float* logits, size_t n, float cap) {
  softcap_all<V>(logits, n, cap);
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, block_sums<V>, indices_above<V>, exp_one<V>, softcap_row<V>};
}

}  // namespace
}  // namespace edgedec::head_topk
