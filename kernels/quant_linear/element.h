// Reading single quants and scales out of a record: for scalar code.
#pragma once

#include "common/half.h"
#include "formats.h"

namespace edgedec {
namespace {

template <class F>
EDGEDEC_INLINE int quant_at(const uint8_t* rec, int group, int step, int byte) {
  if constexpr (F::kBits == 8) return rec[F::kLo + (group * kSteps + step) * 64 + byte];
  const int lo = rec[F::kLo + group / 2 * 512 + step * 64 + byte] >> (4 * (group & 1)) & 15;
  if constexpr (kLookup<F>) return F::kValues[lo] + F::kOffset;
  if (F::kBits == 5) return lo | (rec[F::kHi + group * 64 + byte] >> step & 1) << 4;
  if (F::kBits == 6) return lo | (rec[F::kHi + group * 128 + step / 4 * 64 + byte] >> 2 * (step % 4) & 3) << 4;
  return lo;
}

struct ScaleMin {
  float scale, minus_min;  // Q6_K: scale is d alone, its integers are sub_scale's
};

// 2^(e - 128), exact: subnormal for e = 0 and 1.
EDGEDEC_INLINE float exponent_scale(uint8_t e) {
  const uint32_t bits = e > 1 ? static_cast<uint32_t>(e - 1) << 23 : 0x200000u << e;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

template <class F>
EDGEDEC_INLINE ScaleMin scale_min(const uint8_t* rec, int group, int c) {
  if (F::kScales == Scales::kHalf)
    return {half_at(rec, group * kTile + c), F::kMin ? half_at(rec, (2 + group) * kTile + c) : 0.0f};
  if (F::kScales == Scales::kExponent) return {exponent_scale(rec[group * kTile + c]), 0.0f};
  const float d = half_at(rec, c);
  if (F::kScales == Scales::kSignedQ6) return {d, 0.0f};
  const uint8_t* pair = rec + 64 + group / 2 * 48;
  const uint8_t low = pair[(group & 1) * 16 + c];
  const int high = pair[32 + c] >> 4 * (group & 1);
  const int sc = (low & 15) | (high & 3) << 4, m = low >> 4 | (high >> 2 & 3) << 4;
  return {d * static_cast<float>(sc), -(half_at(rec, kTile + c) * static_cast<float>(m))};
}

// Q6_K: the integer scale of a half (16 inputs) of a group.
EDGEDEC_INLINE int sub_scale(const uint8_t* rec, int group, int half, int c) {
  return static_cast<int8_t>(rec[32 + (2 * group + half) * kTile + c]);
}

}  // namespace
}  // namespace edgedec
