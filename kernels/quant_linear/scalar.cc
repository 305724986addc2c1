// The reference row: plain C++, one element at a time, no intrinsics.
#include <cmath>

#include "quant_linear/element.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::scalar {
namespace {

// Steps [s0, s1) of a group for one column.
template <class F>
int32_t dot(const uint8_t* rec, int group, int s0, int s1, int column, const int8_t* x) {
  int32_t sum = 0;
  for (int s = s0; s < s1; ++s)
    for (int j = 0; j < 4; ++j) sum += (quant_at<F>(rec, group, s, column * 4 + j) - F::kOffset) * x[4 * s + j];
  return sum;
}

template <class F>
float group_sum(const uint8_t* rec, int g, int c, const int8_t* x) {
  if constexpr (!kHalves<F>) return static_cast<float>(dot<F>(rec, g, 0, kSteps, c, x));
  const int32_t dot0 = dot<F>(rec, g, 0, 4, c, x), dot1 = dot<F>(rec, g, 4, kSteps, c, x);
  if constexpr (kFloatScales<F>)
    return std::fma(static_cast<float>(dot1), half_scale<F>(rec, g, 1, c),
                    static_cast<float>(dot0) * half_scale<F>(rec, g, 0, c));
  return static_cast<float>(sub_scale<F>(rec, g, 0, c) * dot0 + sub_scale<F>(rec, g, 1, c) * dot1);
}

// The sum of activations that the minimum multiplies: of both halves, each times its integer minimum if it has one.
template <class F>
int32_t min_sum(const uint8_t* rec, int g, int c, const int32_t* sum) {
  if (!kHalves<F>) return sum[0] + sum[1];
  return sub_min(rec, g, 0, c) * sum[0] + sub_min(rec, g, 1, c) * sum[1];
}

template <class F>
float element(const uint8_t* tile, const Weight& w, const Acts& x, int m, int c) {
  float acc = 0.0f;
  for (int r = 0; r < w.records(); ++r) {
    const uint8_t* rec = tile + static_cast<size_t>(r) * F::kBytes;
    for (int g = 0; g < F::kRecord / kGroup; ++g) {
      const int index = r * (F::kRecord / kGroup) + g;
      const size_t at = static_cast<size_t>(m) * (x.k / kGroup) + index;
      const ScaleMin s = scale_min<F>(rec, g, c);
      float t = group_sum<F>(rec, g, c, x.q + static_cast<size_t>(m) * x.k + index * kGroup) * s.scale;
      if (F::kMin) t = std::fma(s.minus_min, static_cast<float>(min_sum<F>(rec, g, c, x.sum + 2 * at)), t);
      acc = std::fma(t, x.scale[at], acc);
    }
  }
  return acc;
}

template <class F>
void tiles(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  const int end = tile1 * kTile < w.rows ? tile1 * kTile : w.rows;
  for (int n = tile0 * kTile; n < end; ++n)
    for (int m = m0; m < m1; ++m)
      out[static_cast<size_t>(m - m0) * ldo + (n - tile0 * kTile)] =
          element<F>(w.data + w.tile_bytes() * (n / kTile), w, x, m, n % kTile);
}

void quantise_group(const float* x, int left, int8_t* q, float* scale, int32_t* sum) {
  float value[kGroup], peak = 0.0f;
  bool finite = true;
  for (int i = 0; i < kGroup; ++i) {
    value[i] = i < left ? x[i] : 0.0f;
    const float size = std::fabs(value[i]);
    if (size > peak) peak = size;
    finite = finite && std::isfinite(size);
  }
  const bool zeros = !finite || peak < kLeastPeak;
  const float inverse = zeros ? 0.0f : 127.0f / peak;
  *scale = finite ? peak / 127.0f : __builtin_nanf("");
  for (int half = 0; half < 2; ++half) {
    int32_t total = 0;
    for (int i = half * 16; i < half * 16 + 16; ++i) {
      q[i] = zeros ? int8_t{0} : static_cast<int8_t>(std::nearbyint(value[i] * inverse));
      total += q[i];
    }
    sum[half] = total;
  }
}

void quantise(const float* x, int cols, int k, size_t first, size_t last, int8_t* q, float* scale, int32_t* sum) {
  for_groups(k, first, last, [&](size_t m, int g, size_t at) {
    quantise_group(x + m * cols + g * kGroup, cols - g * kGroup, q + at * kGroup, scale + at, sum + 2 * at);
  });
}

}  // namespace

extern const Row row;
const Row row = {"scalar",
                 quantise,
                 {
#define X(F) tiles<F>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Scalar>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::scalar
