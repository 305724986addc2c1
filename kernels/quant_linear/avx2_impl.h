// The 256-bit rows. Dot products of unsigned quants with signed activations; a policy says by which instruction.
#pragma once

#include "quant_linear/quantise_avx2.h"

namespace edgedec::quant_linear {
namespace {

constexpr int kRowsAtOnce = 32;  // tokens whose float accumulators stay in L1 while a tile streams by

struct Pair {  // sixteen columns
  __m256i a, b;
};
struct PairF {
  __m256 a, b;
};

EDGEDEC_INLINE __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
EDGEDEC_INLINE __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
EDGEDEC_INLINE Pair load_pair(const uint8_t* p) { return {load(p), load(p + 32)}; }

// Quants of one step as unsigned bytes.
template <class F>
EDGEDEC_INLINE __m256i unpack_half(const uint8_t* rec, int group, int s, int offset) {
  if constexpr (F::kBits == 8) return load(rec + F::kLo + (group * kSteps + s) * 64 + offset);
  const __m256i bytes = load(rec + F::kLo + group / 2 * 512 + s * 64 + offset);
  const __m256i shifted = group & 1 ? _mm256_srli_epi16(bytes, 4) : bytes;
  const __m256i lo = _mm256_and_si256(shifted, _mm256_set1_epi8(15));
  if constexpr (F::kBits == 5) {
    const __m256i hi = _mm256_srl_epi16(load(rec + F::kHi + group * 64 + offset), _mm_cvtsi32_si128(s));
    return _mm256_or_si256(lo, _mm256_slli_epi16(_mm256_and_si256(hi, _mm256_set1_epi8(1)), 4));
  } else if constexpr (F::kBits == 6) {
    const __m256i bits = load(rec + F::kHi + group * 128 + s / 4 * 64 + offset);
    const __m256i hi = _mm256_srl_epi16(bits, _mm_cvtsi32_si128(2 * (s % 4)));
    return _mm256_or_si256(lo, _mm256_slli_epi16(_mm256_and_si256(hi, _mm256_set1_epi8(3)), 4));
  }
  return lo;
}

EDGEDEC_INLINE PairF half_pair(const uint8_t* p) {
  return {_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 16))};
}

EDGEDEC_INLINE PairF bytes_to_floats(__m128i v) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)))};
}

EDGEDEC_INLINE Pair signed_bytes(__m128i v) {
  return {_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8))};
}

struct GroupScales {
  PairF scale, minus_min;
  Pair sc0, sc1;  // Q6_K only
};

template <class F>
EDGEDEC_INLINE GroupScales group_scales(const uint8_t* rec, int group) {
  GroupScales s;
  if constexpr (F::kScales == Scales::kHalf) {
    s.scale = half_pair(rec + group * 32);
    if constexpr (F::kMin) s.minus_min = half_pair(rec + 64 + group * 32);
  } else if constexpr (F::kScales == Scales::kSignedQ6) {
    s.scale = half_pair(rec);
    s.sc0 = signed_bytes(load128(rec + 32 + 2 * group * kTile));
    s.sc1 = signed_bytes(load128(rec + 32 + (2 * group + 1) * kTile));
  } else {
    const uint8_t* pair = rec + 64 + group / 2 * 48;
    const __m128i low = load128(pair + (group & 1) * 16), nibble = _mm_set1_epi8(15), two = _mm_set1_epi8(3);
    const __m128i high = group & 1 ? _mm_srli_epi16(load128(pair + 32), 4) : load128(pair + 32);
    const __m128i sc = _mm_or_si128(_mm_and_si128(low, nibble), _mm_slli_epi16(_mm_and_si128(high, two), 4));
    const __m128i m = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(low, 4), nibble),
                                   _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(high, 2), two), 4));
    const PairF d = half_pair(rec), dmin = half_pair(rec + 32), fsc = bytes_to_floats(sc), fm = bytes_to_floats(m);
    const __m256 sign = _mm256_set1_ps(-0.0f);
    s.scale = {_mm256_mul_ps(d.a, fsc.a), _mm256_mul_ps(d.b, fsc.b)};
    s.minus_min = {_mm256_xor_ps(_mm256_mul_ps(dmin.a, fm.a), sign), _mm256_xor_ps(_mm256_mul_ps(dmin.b, fm.b), sign)};
  }
  return s;
}

EDGEDEC_INLINE __m256i broadcast4(const int8_t* x, int s) {
  int32_t four;
  __builtin_memcpy(&four, x + 4 * s, 4);
  return _mm256_set1_epi32(four);
}

// The exact integer of a group for one token: policy D sums steps [s0, s1), the offset leaves through the sums.
template <class F, class D>
EDGEDEC_INLINE Pair group_sum(const Pair* w, const GroupScales& s, const int8_t* x, const int32_t* sum) {
  if constexpr (F::kScales == Scales::kSignedQ6) {
    const Pair lo = D::template dot<F, 4>(w, x), hi = D::template dot<F, 4>(w + 4, x + 16);
    const __m256i off0 = _mm256_set1_epi32(F::kOffset * sum[0]), off1 = _mm256_set1_epi32(F::kOffset * sum[1]);
    const auto join = [&](__m256i a, __m256i b, __m256i sa, __m256i sb) {
      return _mm256_add_epi32(_mm256_mullo_epi32(_mm256_sub_epi32(a, off0), sa),
                              _mm256_mullo_epi32(_mm256_sub_epi32(b, off1), sb));
    };
    return {join(lo.a, hi.a, s.sc0.a, s.sc1.a), join(lo.b, hi.b, s.sc0.b, s.sc1.b)};
  } else {
    Pair v = D::template dot<F, kSteps>(w, x);
    if constexpr (F::kOffset != 0 && !(F::kBits == 8 && D::kSignedBytes)) {
      const __m256i off = _mm256_set1_epi32(F::kOffset * (sum[0] + sum[1]));
      v = {_mm256_sub_epi32(v.a, off), _mm256_sub_epi32(v.b, off)};
    }
    return v;
  }
}

template <class F>
EDGEDEC_INLINE __m256 step(__m256i isum, __m256 scale, __m256 minus_min, __m256 xsum, __m256 xscale, __m256 acc) {
  __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale);
  if constexpr (F::kMin) t = _mm256_fmadd_ps(minus_min, xsum, t);
  return _mm256_fmadd_ps(t, xscale, acc);
}

template <class F, class D>
EDGEDEC_INLINE void group_rows(const uint8_t* rec, int group, const Acts& x, int m0, int n, int index, PairF* acc) {
  Pair w[kSteps];
  for (int s = 0; s < kSteps; ++s) {
    w[s] = {unpack_half<F>(rec, group, s, 0), unpack_half<F>(rec, group, s, 32)};
    if constexpr (F::kBits == 8 && D::kSignedBytes) {
      const __m256i flip = _mm256_set1_epi8(-128);
      w[s] = {_mm256_xor_si256(w[s].a, flip), _mm256_xor_si256(w[s].b, flip)};
    }
  }
  const GroupScales s = group_scales<F>(rec, group);
  for (int m = 0; m < n; ++m) {
    const size_t at = static_cast<size_t>(m0 + m) * (x.k / kGroup) + index;
    const Pair isum = group_sum<F, D>(w, s, x.q + at * kGroup, x.sum + 2 * at);
    const __m256 xsum = _mm256_set1_ps(static_cast<float>(x.sum[2 * at] + x.sum[2 * at + 1]));
    const __m256 xscale = _mm256_set1_ps(x.scale[at]);
    acc[m].a = step<F>(isum.a, s.scale.a, s.minus_min.a, xsum, xscale, acc[m].a);
    acc[m].b = step<F>(isum.b, s.scale.b, s.minus_min.b, xsum, xscale, acc[m].b);
  }
}

EDGEDEC_INLINE void store_columns(const PairF& acc, float* out, int columns) {
  if (columns >= kTile) {
    _mm256_storeu_ps(out, acc.a);
    _mm256_storeu_ps(out + 8, acc.b);
    return;
  }
  float all[kTile];
  _mm256_storeu_ps(all, acc.a);
  _mm256_storeu_ps(all + 8, acc.b);
  for (int c = 0; c < columns; ++c) out[c] = all[c];
}

// ONE: a single token, so that its accumulators stay in registers.
template <class F, class D, bool ONE>
void tile_rows(const Weight& w, const Acts& x, int tile, int m0, int n, float* out, size_t ldo) {
  constexpr int kGroups = F::kRecord / kGroup;
  PairF acc[ONE ? 1 : kRowsAtOnce];
  for (int m = 0; m < (ONE ? 1 : n); ++m) acc[m] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  const uint8_t* rec = w.data + w.tile_bytes() * tile;
  const int records = w.records();
  for (int r = 0; r < records; ++r, rec += F::kBytes)
    for (int g = 0; g < kGroups; ++g)
      group_rows<F, D>(rec, g, x, m0, ONE ? 1 : n, r * kGroups + g, acc);
  const int columns = w.rows - tile * kTile;
  for (int m = 0; m < (ONE ? 1 : n); ++m) store_columns(acc[m], out + m * ldo, columns);
}

template <class F, class D>
void tiles(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (int tile = tile0; tile < tile1; ++tile)
    for (int m = m0; m < m1; m += kRowsAtOnce) {
      const int n = m1 - m < kRowsAtOnce ? m1 - m : kRowsAtOnce;
      float* at = out + static_cast<size_t>(m - m0) * ldo + (tile - tile0) * kTile;
      n == 1 ? tile_rows<F, D, true>(w, x, tile, m, n, at, ldo) : tile_rows<F, D, false>(w, x, tile, m, n, at, ldo);
    }
}

}  // namespace
}  // namespace edgedec::quant_linear
