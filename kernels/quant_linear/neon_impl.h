// The NEON rows. Four registers hold a step of all sixteen columns. A policy D multiplies the integers:
//   D::kSigned              quants above 127 are made signed (q - 128) before they are multiplied
//   D::dot(acc, w, x, i)    acc + the products of four bytes of w in each lane with bytes 4i..4i+3 of x
//   D::many<F, ODD>(...)    one group for several tokens
// Integer sums start at -offset * (sum of activations), which corrects for the offset of a format.
#pragma once

#include "quant_linear/quantise_neon.h"
#include "quant_linear/tile_loop.h"

namespace edgedec::quant_linear {
namespace {

constexpr int kParts = 4;  // registers of sixteen columns

struct Columns {
  int32x4_t part[kParts];
};
struct ColumnsF {
  float32x4_t part[kParts];
};

// How many sums a group has: of its halves, where those have an integer scale each, or of all of it.
template <class F>
constexpr int kSums = kHalves<F> ? 2 : 1;

template <class F, class D>
constexpr bool kFlipped = D::kSigned && kMaxQuant<F> > 127;

template <class F, class D>
constexpr int kStart = kFlipped<F, D> ? F::kOffset - 128 : F::kOffset;

template <class F>
EDGEDEC_INLINE uint8x16_t lookup(uint8x16_t index) {
  return vqtbl1q_u8(vaddq_u8(vreinterpretq_u8_s8(vld1q_s8(F::kValues)), vdupq_n_u8(F::kOffset)), index);
}

// Quants of four columns of one step as unsigned bytes. ODD: the group's parity, known when compiling as the shift
// depends on it.
template <class F, int ODD>
EDGEDEC_INLINE uint8x16_t unpack(const uint8_t* rec, int group, int s, int part) {
  if constexpr (F::kBits == 8) {
    return vld1q_u8(rec + F::kLo + (group * kSteps + s) * 64 + part * 16);
  } else if constexpr (F::kBits < 4) {
    const uint8x16_t crumbs = vld1q_u8(rec + F::kLo + group * 128 + s / 4 * 64 + part * 16);
    const uint8x16_t lo = vandq_u8(vshlq_u8(crumbs, vdupq_n_s8(static_cast<int8_t>(-2 * (s % 4)))), vdupq_n_u8(3));
    if constexpr (F::kBits == 2) return lo;
    const uint8x16_t hi = vld1q_u8(rec + F::kHi + group * 64 + part * 16);
    const uint8x16_t bits = vorrq_u8(lo, vandq_u8(vshlq_u8(hi, vdupq_n_s8(static_cast<int8_t>(2 - s))), vdupq_n_u8(4)));
    if constexpr (kLookup<F>) return lookup<F>(bits);
    return bits;
  } else {
    const uint8x16_t bytes = vld1q_u8(rec + F::kLo + group / 2 * 512 + s * 64 + part * 16);
    const uint8x16_t lo = ODD ? vshrq_n_u8(bytes, 4) : vandq_u8(bytes, vdupq_n_u8(15));
    if constexpr (kLookup<F>) {
      return lookup<F>(lo);
    } else if constexpr (F::kBits == 4) {
      return lo;
    } else {
      constexpr int bits = F::kBits - 4, steps = 8 / bits;  // of the high part: per step, and steps in a byte
      const uint8x16_t hi = vld1q_u8(rec + F::kHi + group * 64 * bits + s / steps * 64 + part * 16);
      const int8x16_t shift = vdupq_n_s8(static_cast<int8_t>(4 - bits * (s % steps)));
      return vorrq_u8(lo, vandq_u8(vshlq_u8(hi, shift), vdupq_n_u8(((1 << bits) - 1) << 4)));
    }
  }
}

template <class F, class D, int ODD>
EDGEDEC_INLINE uint8x16_t quants(const uint8_t* rec, int group, int s, int part) {
  const uint8x16_t w = unpack<F, ODD>(rec, group, s, part);
  return kFlipped<F, D> ? veorq_u8(w, vdupq_n_u8(128)) : w;
}

EDGEDEC_INLINE ColumnsF halves(const uint8_t* p) {
  ColumnsF f;
  for (int i = 0; i < kParts; ++i) f.part[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i)));
  return f;
}

// fp16 scales times the unit of a format, which is exact.
template <class F>
EDGEDEC_INLINE ColumnsF units(const uint8_t* p) {
  ColumnsF f = halves(p);
  for (auto& part : f.part) part = vmulq_n_f32(part, F::kUnit);
  return f;
}

// Floats of 8 bits without their sign.
template <class F>
EDGEDEC_INLINE ColumnsF float8(const uint8_t* p) {
  ColumnsF f;
  for (int i = 0; i < kParts; i += 2) {
    const uint16x8_t bits = vshll_n_u8(vld1_u8(p + 4 * i), 7);
    f.part[i] = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(bits))), F::kUnit);
    f.part[i + 1] = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(bits))), F::kUnit);
  }
  return f;
}

EDGEDEC_INLINE Columns widen(int8x16_t v) {
  const int16x8_t lo = vmovl_s8(vget_low_s8(v)), hi = vmovl_high_s8(v);
  return {{vmovl_s16(vget_low_s16(lo)), vmovl_high_s16(lo), vmovl_s16(vget_low_s16(hi)), vmovl_high_s16(hi)}};
}

// 2^(e - 128) of sixteen bytes e, also where that is subnormal: shifts by more than 31 bits give zero.
EDGEDEC_INLINE ColumnsF exponent_scales(const uint8_t* p) {
  const uint16x8_t lo = vmovl_u8(vld1_u8(p)), hi = vmovl_u8(vld1_u8(p + 8));
  const uint32x4_t e[kParts] = {vmovl_u16(vget_low_u16(lo)), vmovl_high_u16(lo), vmovl_u16(vget_low_u16(hi)),
                                vmovl_high_u16(hi)};
  const uint32x4_t one = vdupq_n_u32(1);
  ColumnsF f;
  for (int i = 0; i < kParts; ++i) {
    const uint32x4_t normal = vshlq_n_u32(vqsubq_u32(e[i], one), 23);
    const int32x4_t shift = vsubq_s32(vreinterpretq_s32_u32(e[i]), vdupq_n_s32(1));
    // For e of 0 and 1: 0x400000 shifted right by 1 - e. A larger e would shift left.
    const uint32x4_t small = vandq_u32(vshlq_u32(vdupq_n_u32(0x400000), shift), vcleq_u32(e[i], one));
    f.part[i] = vreinterpretq_f32_u32(vorrq_u32(normal, small));
  }
  return f;
}

struct GroupScales {
  ColumnsF scale, minus_min;
  Columns sc[2], mins[2];  // of the halves, where kSums is 2
  ColumnsF half[2];        // the same, where they are floats
};

// The two 6-bit numbers of a group: scale and minimum, or the scales of both halves (Q3_K).
struct SixBits {
  uint8x16_t first, second;
};
template <int ODD>
EDGEDEC_INLINE SixBits six_bits(const uint8_t* field, int group) {
  const uint8_t* pair = field + group / 2 * 48;
  const uint8x16_t low = vld1q_u8(pair + ODD * 16), both = vld1q_u8(pair + 32), two = vdupq_n_u8(3);
  const uint8x16_t high = ODD ? vshrq_n_u8(both, 4) : both;
  return {vorrq_u8(vandq_u8(low, vdupq_n_u8(15)), vshlq_n_u8(vandq_u8(high, two), 4)),
          vorrq_u8(vshrq_n_u8(low, 4), vshlq_n_u8(vandq_u8(vshrq_n_u8(high, 2), two), 4))};
}
EDGEDEC_INLINE Columns widen(uint8x16_t below_128) { return widen(vreinterpretq_s8_u8(below_128)); }

template <class F, int ODD>
EDGEDEC_INLINE GroupScales group_scales(const uint8_t* rec, int group) {
  GroupScales s;
  if constexpr (F::kScales == Scales::kHalf) {
    s.scale = halves(rec + group * 32);
    if constexpr (F::kMin) s.minus_min = halves(rec + 64 + group * 32);
  } else if constexpr (F::kScales == Scales::kExponent) {
    s.scale = exponent_scales(rec + group * kTile);
  } else if constexpr (F::kScales == Scales::kSignedQ6) {
    s.scale = halves(rec);
    for (int half = 0; half < 2; ++half)
      s.sc[half] = widen(vreinterpretq_s8_u8(vld1q_u8(rec + 32 + (2 * group + half) * kTile)));
  } else if constexpr (F::kScales == Scales::kBiasedQ3) {
    const SixBits six = six_bits<ODD>(rec + 32, group);
    s.scale = halves(rec);
    s.sc[0] = widen(vreinterpretq_s8_u8(vsubq_u8(six.first, vdupq_n_u8(32))));
    s.sc[1] = widen(vreinterpretq_s8_u8(vsubq_u8(six.second, vdupq_n_u8(32))));
  } else if constexpr (F::kScales == Scales::kRecord) {
    s.scale = halves(rec);
  } else if constexpr (F::kScales == Scales::kSigned) {
    const Columns sc = widen(vreinterpretq_s8_u8(vld1q_u8(rec + 32 + group * kTile)));
    s.scale = units<F>(rec);
    for (int i = 0; i < kParts; ++i) s.scale.part[i] = vmulq_f32(s.scale.part[i], vcvtq_f32_s32(sc.part[i]));
  } else if constexpr (F::kScales == Scales::kOdd) {
    const uint8x16_t both = vld1q_u8(rec + 32 + group * kTile), one = vdupq_n_u8(1);
    s.scale = units<F>(rec);
    s.sc[0] = widen(vaddq_u8(vshlq_n_u8(vandq_u8(both, vdupq_n_u8(15)), 1), one));
    s.sc[1] = widen(vaddq_u8(vshlq_n_u8(vshrq_n_u8(both, 4), 1), one));
  } else if constexpr (kFloatScales<F>) {
    for (int i = 0; i < kParts; ++i) s.scale.part[i] = vreinterpretq_f32_u8(vld1q_u8(rec + 16 * i));
    for (int half = 0; half < 2; ++half) s.half[half] = float8<F>(rec + 64 + (2 * group + half) * kTile);
  } else if constexpr (F::kScales == Scales::kNibbles) {
    s.scale = halves(rec);
    s.minus_min = halves(rec + 32);
    for (auto& part : s.minus_min.part) part = vnegq_f32(part);
    for (int half = 0; half < 2; ++half) {
      const uint8x16_t both = vld1q_u8(rec + 64 + (2 * group + half) * kTile);
      s.sc[half] = widen(vandq_u8(both, vdupq_n_u8(15)));
      s.mins[half] = widen(vshrq_n_u8(both, 4));
    }
  } else {
    const SixBits six = six_bits<ODD>(rec + 64, group);
    const ColumnsF d = halves(rec), dmin = halves(rec + 32);
    const Columns sc = widen(six.first), m = widen(six.second);
    for (int i = 0; i < kParts; ++i) {
      s.scale.part[i] = vmulq_f32(d.part[i], vcvtq_f32_s32(sc.part[i]));
      s.minus_min.part[i] = vnegq_f32(vmulq_f32(dmin.part[i], vcvtq_f32_s32(m.part[i])));
    }
  }
  return s;
}

// One group of one token.
struct Token {
  const int8_t* q;
  const int32_t* sum;
  float scale;
};

EDGEDEC_INLINE Token token(const Acts& x, int m, int index) {
  const size_t at = static_cast<size_t>(m) * (x.k / kGroup) + index;
  return {x.q + at * kGroup, x.sum + 2 * at, x.scale[at]};
}

// The start values of a token's integer sums.
template <class F, class D>
EDGEDEC_INLINE int32_t start(const Token& t, int half) {
  return -kStart<F, D> * (kSums<F> == 2 ? t.sum[half] : t.sum[0] + t.sum[1]);
}

// The factor of the minimum: the sum of activations, or of both halves' sums times their integer minima.
template <class F>
EDGEDEC_INLINE float32x4_t min_sums(int part, const GroupScales& s, const Token& t) {
  if constexpr (kSums<F> == 1) return vdupq_n_f32(static_cast<float>(t.sum[0] + t.sum[1]));
  const int32x4_t first = vmulq_n_s32(s.mins[0].part[part], t.sum[0]);
  return vcvtq_f32_s32(vmlaq_n_s32(first, s.mins[1].part[part], t.sum[1]));
}

// From the exact sums of a group to the new accumulator. hi: of the second half, where kSums is 2.
template <class F>
EDGEDEC_INLINE void step(int part, int32x4_t lo, int32x4_t hi, const GroupScales& s, const Token& t, ColumnsF& acc) {
  if constexpr (kSums<F> == 2 && !kFloatScales<F>)
    lo = vmlaq_s32(vmulq_s32(lo, s.sc[0].part[part]), hi, s.sc[1].part[part]);
  float32x4_t v = vcvtq_f32_s32(lo);
  if constexpr (kFloatScales<F>)
    v = vfmaq_f32(vmulq_f32(v, s.half[0].part[part]), vcvtq_f32_s32(hi), s.half[1].part[part]);
  v = vmulq_f32(v, s.scale.part[part]);
  if constexpr (F::kMin) v = vfmaq_f32(v, s.minus_min.part[part], min_sums<F>(part, s, t));
  acc.part[part] = vfmaq_f32(acc.part[part], v, vdupq_n_f32(t.scale));
}

// R tokens by D::dot; w(s, part) gives the quants. One part of the columns after the other, for the fewest registers.
template <class F, class D, int R, class W>
EDGEDEC_INLINE void group_dots(const W& w, const GroupScales& s, const Token* t, ColumnsF* acc) {
  constexpr int steps = kSteps / kSums<F>;
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) {
    int32x4_t sum[2][R];
#pragma GCC unroll 8
    for (int i = 0; i < kSteps; ++i) {
      const uint8x16_t quants = w(i, part);
      const int half = i / steps;
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        if (i % steps == 0) sum[half][r] = vdupq_n_s32(start<F, D>(t[r], half));
        sum[half][r] = D::dot(sum[half][r], quants, vld1q_s8(t[r].q + i / 4 * 16), i % 4);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) step<F>(part, sum[0][r], sum[kSums<F> - 1][r], s, t[r], acc[r]);
  }
}

EDGEDEC_INLINE void store_columns(const ColumnsF& acc, float* out, int columns) {
  float all[kTile];
  float* to = columns >= kTile ? out : all;
  for (int i = 0; i < kParts; ++i) vst1q_f32(to + 4 * i, acc.part[i]);
  for (int c = 0; to == all && c < columns; ++c) out[c] = all[c];
}

// The class C of tile_loop.h, with the integer products of policy D. For a single token quants are read directly from
// the record.
template <class D>
struct NeonColumns {
  using Sums = ColumnsF;
  static constexpr int kStreams = 1, kFew = 1, kRowsAtOnce = 32;
  static constexpr bool kUnpacks = false;

  static EDGEDEC_INLINE Sums zero() {
    Sums acc;
    for (auto& part : acc.part) part = vdupq_n_f32(0.0f);
    return acc;
  }
  static EDGEDEC_INLINE void store(const Sums& acc, float* out, int columns) { store_columns(acc, out, columns); }

  template <class F, int ODD, int N>
  static EDGEDEC_INLINE void group(const uint8_t* rec, int g, const Acts& x, int m0, int n, int index, Sums* acc) {
    const GroupScales s = group_scales<F, ODD>(rec, g);
    if constexpr (N == 1) {
      const Token t = token(x, m0, index);
      group_dots<F, D, 1>([=](int i, int part) { return quants<F, D, ODD>(rec, g, i, part); }, s, &t, acc);
    } else {
      D::template many<F, ODD>(rec, g, s, x, m0, n, index, acc);
    }
  }
};

template <class F, class D>
constexpr TilesFn tiles = tile_loop<F, NeonColumns<D>>;

}  // namespace
}  // namespace edgedec::quant_linear
