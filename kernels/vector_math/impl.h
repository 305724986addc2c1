// Shared by the rows: loops around single operations of V.
#pragma once

#include "simd/math16.h"
#include "vector_math/vector_math.h"

namespace edgedec::vector_math {
namespace {

#define EDGEDEC_MAP(NAME, EXPRESSION)                                     \
  template <class V>                                                      \
  void NAME(const float* x, float* y, size_t n) {                         \
    for (size_t i = 0; i < n; i += kLanes) {                              \
      const size_t left = n - i < kLanes ? n - i : kLanes;                \
      const V a = V::load_partial(x + i, left);                           \
      (EXPRESSION).store_partial(y + i, left);                            \
    }                                                                     \
  }
EDGEDEC_MAP(map_exp, exp(a))
EDGEDEC_MAP(map_silu, silu(a))
EDGEDEC_MAP(map_gelu_tanh, gelu_tanh(a))
EDGEDEC_MAP(map_tanh, tanh(a))
EDGEDEC_MAP(map_sqrt, V::sqrt(a))
EDGEDEC_MAP(map_abs, V::abs(a))
EDGEDEC_MAP(map_round, V::round(a))
EDGEDEC_MAP(map_ints, V::from_ints(V::to_ints(a)))
#undef EDGEDEC_MAP

template <class V>
V greater(V a, V b) {
  float lane[kLanes];
  const uint32_t bits = V::greater_bits(a, b);
  for (int i = 0; i < kLanes; ++i) lane[i] = static_cast<float>(bits >> i & 1);
  return V::load(lane);
}

#define EDGEDEC_COMBINE(NAME, EXPRESSION)                                                   \
  template <class V>                                                                        \
  void NAME(const float* x, const float* y, const float* z, float* out, size_t n) {         \
    for (size_t i = 0; i < n; i += kLanes) {                                                \
      const V a = V::load(x + i), b = V::load(y + i);                                       \
      [[maybe_unused]] const V c = V::load(z + i);                                          \
      (EXPRESSION).store(out + i);                                                          \
    }                                                                                       \
  }
EDGEDEC_COMBINE(combine_add, V::add(a, b))
EDGEDEC_COMBINE(combine_sub, V::sub(a, b))
EDGEDEC_COMBINE(combine_mul, V::mul(a, b))
EDGEDEC_COMBINE(combine_div, V::div(a, b))
EDGEDEC_COMBINE(combine_fma, V::fma(a, b, c))
EDGEDEC_COMBINE(combine_max, V::max(a, b))
EDGEDEC_COMBINE(combine_min, V::min(a, b))
EDGEDEC_COMBINE(combine_greater, greater(a, b))
#undef EDGEDEC_COMBINE

template <class V>
void reduce_add(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n / kLanes; ++i) y[i] = V::reduce_add(V::load(x + i * kLanes));
}

template <class V>
void reduce_add_each(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n / kLanes; i += kLanes) {
    V v[kLanes];
    for (int j = 0; j < kLanes; ++j) v[j] = V::load(x + (i + j) * kLanes);
    edgedec::reduce_add_each(v).store(y + i);
  }
}

template <class V>
void reduce_max(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n / kLanes; ++i) y[i] = V::reduce_max(V::load(x + i * kLanes));
}

template <class V>
void to_half(const float* x, uint16_t* y, size_t n) {
  for (size_t i = 0; i < n; i += kLanes) V::load(x + i).store_f16(y + i);
}

template <class V>
void from_half(const uint16_t* x, float* y, size_t n) {
  for (size_t i = 0; i < n; i += kLanes) V::load_f16(x + i).store(y + i);
}

void map_log(const double* x, double* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = log_exact(x[i]);
}

void map_sincos(const double* x, double* sine, double* cosine, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const SinCos both = sincos_exact(x[i]);
    sine[i] = both.sin;
    cosine[i] = both.cos;
  }
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name,
          map_exp<V>, map_silu<V>, map_gelu_tanh<V>, map_tanh<V>, map_sqrt<V>, map_abs<V>, map_round<V>, map_ints<V>,
          combine_add<V>, combine_sub<V>, combine_mul<V>, combine_div<V>, combine_fma<V>, combine_max<V>,
          combine_min<V>, combine_greater<V>,
          reduce_add<V>, reduce_add_each<V>, reduce_max<V>,
          to_half<V>, from_half<V>, map_log, map_sincos};
}

}  // namespace
}  // namespace edgedec::vector_math
