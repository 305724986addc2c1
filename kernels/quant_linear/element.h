// Reads single quants and scales of a record, for scalar code.
#pragma once

#include "simd/half.h"
#include "packing/formats.h"

namespace edgedec {
namespace {

template <class F>
EDGEDEC_INLINE int quant_at(const uint8_t* rec, int group, int step, int byte) {
  if constexpr (F::kBits == 8) return rec[F::kLo + (group * kSteps + step) * 64 + byte];
  if constexpr (F::kBits < 4) {
    const int crumb = rec[F::kLo + group * 128 + step / 4 * 64 + byte] >> 2 * (step % 4) & 3;
    if constexpr (F::kBits == 2) return crumb;
    const int index = crumb | (rec[F::kHi + group * 64 + byte] >> step & 1) << 2;
    if constexpr (kLookup<F>) return F::kValues[index] + F::kOffset;
    return index;
  }
  const int lo = rec[F::kLo + group / 2 * 512 + step * 64 + byte] >> (4 * (group & 1)) & 15;
  if constexpr (kLookup<F>) return F::kValues[lo] + F::kOffset;
  if (F::kBits == 5) return lo | (rec[F::kHi + group * 64 + byte] >> step & 1) << 4;
  if (F::kBits == 6) return lo | (rec[F::kHi + group * 128 + step / 4 * 64 + byte] >> 2 * (step % 4) & 3) << 4;
  return lo;
}

struct ScaleMin {
  float scale, minus_min;  // with scales of halves: of the record alone, the integers are sub_scale's and sub_min's
};

// 2^(e - 128), exact: subnormal for e = 0 and 1.
EDGEDEC_INLINE float exponent_scale(uint8_t e) {
  const uint32_t bits = e > 1 ? static_cast<uint32_t>(e - 1) << 23 : 0x200000u << e;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The first or second of a group's two 6-bit numbers: scale and minimum, or the scales of both halves (Q3_K).
EDGEDEC_INLINE int six_bits(const uint8_t* field, int group, int second, int c) {
  const uint8_t* pair = field + group / 2 * 48;
  const int low = pair[(group & 1) * kTile + c] >> 4 * second & 15;
  return low | (pair[32 + c] >> (4 * (group & 1) + 2 * second) & 3) << 4;
}

template <class F>
EDGEDEC_INLINE ScaleMin scale_min(const uint8_t* rec, int group, int c) {
  if (F::kScales == Scales::kHalf)
    return {half_at(rec, group * kTile + c), F::kMin ? half_at(rec, (2 + group) * kTile + c) : 0.0f};
  if (F::kScales == Scales::kExponent) return {exponent_scale(rec[group * kTile + c]), 0.0f};
  if constexpr (kFloatScales<F>) {
    float d;
    std::memcpy(&d, rec + 4 * c, 4);
    return {d, 0.0f};
  }
  const float d = half_at(rec, c);
  if constexpr (F::kScales == Scales::kRecord) return {d, 0.0f};
  if constexpr (F::kScales == Scales::kOdd) return {d * F::kUnit, 0.0f};
  if constexpr (F::kScales == Scales::kSigned)
    return {d * F::kUnit * static_cast<float>(static_cast<int8_t>(rec[32 + group * kTile + c])), 0.0f};
  if (kHalves<F>) return {d, F::kMin ? -half_at(rec, kTile + c) : 0.0f};
  const float sc = static_cast<float>(six_bits(rec + 64, group, 0, c));
  return {d * sc, -(half_at(rec, kTile + c) * static_cast<float>(six_bits(rec + 64, group, 1, c)))};
}

// The integer scale of a half (16 inputs) of a group.
template <class F>
EDGEDEC_INLINE int sub_scale(const uint8_t* rec, int group, int half, int c) {
  if (F::kScales == Scales::kBiasedQ3) return six_bits(rec + 32, group, half, c) - 32;
  if (F::kScales == Scales::kOdd) return (rec[32 + group * kTile + c] >> 4 * half & 15) * 2 + 1;
  if (F::kScales == Scales::kNibbles) return rec[64 + (2 * group + half) * kTile + c] & 15;
  return static_cast<int8_t>(rec[32 + (2 * group + half) * kTile + c]);
}

// The scale of a half as a float, which holds it exactly.
template <class F>
EDGEDEC_INLINE float half_scale(const uint8_t* rec, int group, int half, int c) {
  if constexpr (kFloatScales<F>) {
    const uint16_t bits = static_cast<uint16_t>(rec[64 + (2 * group + half) * kTile + c] << 7);
    return half_at(reinterpret_cast<const uint8_t*>(&bits), 0) * F::kUnit;
  } else {
    return static_cast<float>(sub_scale<F>(rec, group, half, c));
  }
}

// Q2_K: the integer minimum of a half of a group.
EDGEDEC_INLINE int sub_min(const uint8_t* rec, int group, int half, int c) {
  return rec[64 + (2 * group + half) * kTile + c] >> 4;
}

}  // namespace
}  // namespace edgedec
