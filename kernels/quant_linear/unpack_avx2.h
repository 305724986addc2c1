// The quants and scales of a packed group in 256-bit registers.
#pragma once

#include <immintrin.h>

#include "packing/formats.h"

namespace edgedec::quant_linear {
namespace {

struct Pair {  // sixteen columns
  __m256i a, b;
};
struct PairF {
  __m256 a, b;
};

EDGEDEC_INLINE __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
EDGEDEC_INLINE __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
EDGEDEC_INLINE Pair load_pair(const uint8_t* p) { return {load(p), load(p + 32)}; }

// Adds those bits of every byte of `high` that a shift to the left (to the right if negative) brings under the mask.
EDGEDEC_INLINE __m256i with_bits(__m256i low, __m256i high, int left, char mask) {
  const __m256i moved = left < 0 ? _mm256_srli_epi16(high, -left) : _mm256_slli_epi16(high, left);
  return _mm256_or_si256(low, _mm256_and_si256(moved, _mm256_set1_epi8(mask)));
}

template <class F, bool SIGNED>
EDGEDEC_INLINE __m256i lookup(__m256i index) {
  const __m256i values = _mm256_broadcastsi128_si256(load128(F::kValues));
  const __m256i offset_values = _mm256_add_epi8(values, _mm256_set1_epi8(static_cast<int8_t>(F::kOffset)));
  return _mm256_shuffle_epi8(SIGNED ? values : offset_values, index);
}

// Quants of one step as unsigned bytes (or signed ones, without their offset, for formats that need all eight bits).
// ODD: the group's parity, known when compiling as the shifts depend on it.
template <class F, int ODD, bool SIGNED>
EDGEDEC_INLINE __m256i unpack_half(const uint8_t* rec, int group, int s, int offset) {
  if constexpr (F::kBits == 8) {
    const __m256i bytes = load(rec + F::kLo + (group * kSteps + s) * 64 + offset);
    return SIGNED ? _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)) : bytes;
  }
  if constexpr (F::kBits < 4) {
    const __m256i bits = load(rec + F::kLo + group * 128 + s / 4 * 64 + offset);
    const __m256i crumbs = _mm256_and_si256(_mm256_srli_epi16(bits, 2 * (s % 4)), _mm256_set1_epi8(3));
    if constexpr (F::kBits == 2) return crumbs;
    const __m256i index = with_bits(crumbs, load(rec + F::kHi + group * 64 + offset), 2 - s, 1 << 2);
    if constexpr (kLookup<F>) return lookup<F, SIGNED>(index);
    return index;
  }
  const __m256i bytes = load(rec + F::kLo + group / 2 * 512 + s * 64 + offset);
  const __m256i shifted = ODD ? _mm256_srli_epi16(bytes, 4) : bytes;
  const __m256i lo = _mm256_and_si256(shifted, _mm256_set1_epi8(15));
  if constexpr (F::kBits == 5) {
    return with_bits(lo, load(rec + F::kHi + group * 64 + offset), 4 - s, 1 << 4);
  } else if constexpr (F::kBits == 6) {
    return with_bits(lo, load(rec + F::kHi + group * 128 + s / 4 * 64 + offset), 4 - 2 * (s % 4), 3 << 4);
  } else if constexpr (kLookup<F>) {
    return lookup<F, SIGNED>(lo);
  }
  return lo;
}

EDGEDEC_INLINE PairF half_pair(const uint8_t* p) {
  return {_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 16))};
}

EDGEDEC_INLINE PairF bytes_to_floats(__m128i v) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)))};
}

// The low and the high integer scale of each column, side by side as 16-bit numbers.
EDGEDEC_INLINE Pair scale_pairs(__m128i sc0, __m128i sc1) {
  return {_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(sc0, sc1)), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(sc0, sc1))};
}

// 2^(e - 128) of eight bytes e, also where that is subnormal: shifts by more than 31 bits give zero.
EDGEDEC_INLINE __m256 exponent_scales(const uint8_t* p) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i normal = _mm256_slli_epi32(_mm256_max_epi32(_mm256_sub_epi32(e, one), _mm256_setzero_si256()), 23);
  const __m256i small = _mm256_srlv_epi32(_mm256_set1_epi32(0x400000), _mm256_sub_epi32(one, e));
  return _mm256_castsi256_ps(_mm256_or_si256(normal, small));
}

struct GroupScales {
  PairF scale, minus_min;
  Pair sc, mins;   // only with scales of halves: scale_pairs
  PairF half[2];  // the same scales as floats, for policies with kFloatHalves and formats with kFloatScales
};

// The two 6-bit numbers of a group: scale and minimum, or the scales of both halves (Q3_K).
struct SixBits {
  __m128i first, second;
};
template <int ODD>
EDGEDEC_INLINE SixBits six_bits(const uint8_t* field, int group) {
  const uint8_t* pair = field + group / 2 * 48;
  const __m128i low = load128(pair + ODD * 16), nibble = _mm_set1_epi8(15), two = _mm_set1_epi8(3);
  const __m128i high = ODD ? _mm_srli_epi16(load128(pair + 32), 4) : load128(pair + 32);
  return {_mm_or_si128(_mm_and_si128(low, nibble), _mm_slli_epi16(_mm_and_si128(high, two), 4)),
          _mm_or_si128(_mm_and_si128(_mm_srli_epi16(low, 4), nibble),
                       _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(high, 2), two), 4))};
}

// fp16 scales times the unit of a format, which is exact.
template <class F>
EDGEDEC_INLINE PairF units(const uint8_t* p) {
  const PairF d = half_pair(p);
  const __m256 unit = _mm256_set1_ps(F::kUnit);
  return {_mm256_mul_ps(d.a, unit), _mm256_mul_ps(d.b, unit)};
}

EDGEDEC_INLINE PairF signed_to_floats(__m128i v) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}

// Floats of 8 bits without their sign.
template <class F>
EDGEDEC_INLINE PairF float8(const uint8_t* p) {
  const __m256i bits = _mm256_slli_epi16(_mm256_cvtepu8_epi16(load128(p)), 7);
  const __m256 unit = _mm256_set1_ps(F::kUnit);
  return {_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(bits)), unit),
          _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1)), unit)};
}

// 2n + 1 of the low nibbles n.
EDGEDEC_INLINE __m128i odd(__m128i v) {
  const __m128i n = _mm_and_si128(v, _mm_set1_epi8(15));
  return _mm_add_epi8(_mm_add_epi8(n, n), _mm_set1_epi8(1));
}

// The low or the high number of scale_pairs.
template <int HALF>
EDGEDEC_INLINE __m256 half_scale(__m256i pairs) {
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(HALF ? pairs : _mm256_slli_epi32(pairs, 16), 16));
}

template <class F, class D, int ODD>
EDGEDEC_INLINE GroupScales group_scales(const uint8_t* rec, int group) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  GroupScales s;
  if constexpr (F::kScales == Scales::kHalf) {
    s.scale = half_pair(rec + group * 32);
    if constexpr (F::kMin) s.minus_min = half_pair(rec + 64 + group * 32);
  } else if constexpr (F::kScales == Scales::kExponent) {
    s.scale = {exponent_scales(rec + group * kTile), exponent_scales(rec + group * kTile + 8)};
  } else if constexpr (F::kScales == Scales::kSignedQ6) {
    s.scale = half_pair(rec);
    const uint8_t* sc = rec + 32 + 2 * group * kTile;
    s.sc = scale_pairs(load128(sc), load128(sc + kTile));
  } else if constexpr (F::kScales == Scales::kBiasedQ3) {
    const SixBits six = six_bits<ODD>(rec + 32, group);
    const __m128i bias = _mm_set1_epi8(32);
    s.scale = half_pair(rec);
    s.sc = scale_pairs(_mm_sub_epi8(six.first, bias), _mm_sub_epi8(six.second, bias));
  } else if constexpr (F::kScales == Scales::kRecord) {
    s.scale = half_pair(rec);
  } else if constexpr (F::kScales == Scales::kSigned) {
    const PairF d = units<F>(rec), sc = signed_to_floats(load128(rec + 32 + group * kTile));
    s.scale = {_mm256_mul_ps(d.a, sc.a), _mm256_mul_ps(d.b, sc.b)};
  } else if constexpr (F::kScales == Scales::kOdd) {
    const __m128i both = load128(rec + 32 + group * kTile);
    s.scale = units<F>(rec);
    s.sc = scale_pairs(odd(both), odd(_mm_srli_epi16(both, 4)));
  } else if constexpr (kFloatScales<F>) {
    const float* d = reinterpret_cast<const float*>(rec);
    s.scale = {_mm256_loadu_ps(d), _mm256_loadu_ps(d + 8)};
    s.half[0] = float8<F>(rec + 64 + 2 * group * kTile);
    s.half[1] = float8<F>(rec + 64 + (2 * group + 1) * kTile);
  } else if constexpr (F::kScales == Scales::kNibbles) {
    const __m128i nibble = _mm_set1_epi8(15), a = load128(rec + 64 + 2 * group * kTile);
    const __m128i b = load128(rec + 64 + (2 * group + 1) * kTile);
    const PairF dmin = half_pair(rec + 32);
    s.scale = half_pair(rec);
    s.minus_min = {_mm256_xor_ps(dmin.a, sign), _mm256_xor_ps(dmin.b, sign)};
    s.sc = scale_pairs(_mm_and_si128(a, nibble), _mm_and_si128(b, nibble));
    s.mins = scale_pairs(_mm_and_si128(_mm_srli_epi16(a, 4), nibble), _mm_and_si128(_mm_srli_epi16(b, 4), nibble));
  } else {
    const SixBits six = six_bits<ODD>(rec + 64, group);
    const PairF d = half_pair(rec), dmin = half_pair(rec + 32);
    const PairF fsc = bytes_to_floats(six.first), fm = bytes_to_floats(six.second);
    s.scale = {_mm256_mul_ps(d.a, fsc.a), _mm256_mul_ps(d.b, fsc.b)};
    s.minus_min = {_mm256_xor_ps(_mm256_mul_ps(dmin.a, fm.a), sign), _mm256_xor_ps(_mm256_mul_ps(dmin.b, fm.b), sign)};
  }
  if constexpr (kHalves<F> && D::kFloatHalves && !kFloatScales<F>) {
    s.half[0] = {half_scale<0>(s.sc.a), half_scale<0>(s.sc.b)};
    s.half[1] = {half_scale<1>(s.sc.a), half_scale<1>(s.sc.b)};
  }
  return s;
}

}  // namespace
}  // namespace edgedec::quant_linear
