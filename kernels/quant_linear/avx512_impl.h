// The 512-bit rows: one register holds a step of all sixteen columns.
#pragma once

#include "simd/avx512.h"
#include "quant_linear/quantise_avx2.h"

namespace edgedec::quant_linear {
namespace {

constexpr int kRowsAtOnce = 32;  // tokens whose float accumulators stay in L1 while a tile streams by

EDGEDEC_INLINE __m512i load(const void* p) { return _mm512_loadu_si512(p); }
EDGEDEC_INLINE __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// Quants of one step as unsigned bytes.
template <class F>
EDGEDEC_INLINE __m512i unpack(const uint8_t* rec, int group, int s) {
  if constexpr (F::kBits == 8) return load(rec + F::kLo + (group * kSteps + s) * 64);
  if constexpr (F::kBits < 4) {
    const __m512i bits = load(rec + F::kLo + group * 128 + s / 4 * 64);
    const __m512i crumbs = _mm512_and_si512(_mm512_srli_epi16(bits, 2 * (s % 4)), _mm512_set1_epi8(3));
    if constexpr (F::kBits == 2) return crumbs;
    const __m512i hi = _mm512_srli_epi16(load(rec + F::kHi + group * 64), s);
    return _mm512_or_si512(crumbs, _mm512_slli_epi16(_mm512_and_si512(hi, _mm512_set1_epi8(1)), 2));
  }
  const __m512i bytes = load(rec + F::kLo + group / 2 * 512 + s * 64);
  const __m512i shifted = group & 1 ? _mm512_srli_epi16(bytes, 4) : bytes;
  const __m512i lo = _mm512_and_si512(shifted, _mm512_set1_epi8(15));
  if constexpr (F::kBits == 5) {
    const __m512i hi = _mm512_srli_epi16(load(rec + F::kHi + group * 64), s);
    return _mm512_or_si512(lo, _mm512_slli_epi16(_mm512_and_si512(hi, _mm512_set1_epi8(1)), 4));
  } else if constexpr (F::kBits == 6) {
    const __m512i bits = load(rec + F::kHi + group * 128 + s / 4 * 64);
    const __m512i hi = _mm512_srli_epi16(bits, 2 * (s % 4));
    return _mm512_or_si512(lo, _mm512_slli_epi16(_mm512_and_si512(hi, _mm512_set1_epi8(3)), 4));
  } else if constexpr (kLookup<F>) {
    const __m128i values = _mm_add_epi8(load128(F::kValues), _mm_set1_epi8(static_cast<int8_t>(F::kOffset)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), lo);
  }
  return lo;
}

EDGEDEC_INLINE __m512 halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

// 2^(e - 128) of sixteen bytes e, also where that is subnormal: shifts by more than 31 bits give zero.
EDGEDEC_INLINE __m512 exponent_scales(const uint8_t* p) {
  const __m512i e = _mm512_cvtepu8_epi32(load128(p)), one = _mm512_set1_epi32(1);
  const __m512i normal = _mm512_slli_epi32(_mm512_max_epi32(_mm512_sub_epi32(e, one), _mm512_setzero_si512()), 23);
  const __m512i small = _mm512_srlv_epi32(_mm512_set1_epi32(0x400000), _mm512_sub_epi32(one, e));
  return _mm512_castsi512_ps(_mm512_or_si512(normal, small));
}

struct GroupScales {
  __m512 scale, minus_min;
  __m512i sc0, sc1, m0, m1;  // only with scales of halves
};

// The two 6-bit numbers of a group: scale and minimum, or the scales of both halves (Q3_K).
struct SixBits {
  __m512i first, second;
};
EDGEDEC_INLINE SixBits six_bits(const uint8_t* field, int group) {
  const uint8_t* pair = field + group / 2 * 48;
  const __m128i low = load128(pair + (group & 1) * 16), nibble = _mm_set1_epi8(15), two = _mm_set1_epi8(3);
  const __m128i high = group & 1 ? _mm_srli_epi16(load128(pair + 32), 4) : load128(pair + 32);
  const __m128i a = _mm_or_si128(_mm_and_si128(low, nibble), _mm_slli_epi16(_mm_and_si128(high, two), 4));
  const __m128i b = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(low, 4), nibble),
                                 _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(high, 2), two), 4));
  return {_mm512_cvtepu8_epi32(a), _mm512_cvtepu8_epi32(b)};
}

EDGEDEC_INLINE __m512 negated(__m512 v) {
  return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN)));
}

template <class F>
EDGEDEC_INLINE GroupScales group_scales(const uint8_t* rec, int group) {
  GroupScales s;
  s.minus_min = _mm512_setzero_ps();
  s.sc0 = s.sc1 = s.m0 = s.m1 = _mm512_setzero_si512();
  if constexpr (F::kScales == Scales::kHalf) {
    s.scale = halves(rec + group * 32);
    if constexpr (F::kMin) s.minus_min = halves(rec + 64 + group * 32);
  } else if constexpr (F::kScales == Scales::kExponent) {
    s.scale = exponent_scales(rec + group * kTile);
  } else if constexpr (F::kScales == Scales::kSignedQ6) {
    s.scale = halves(rec);
    s.sc0 = _mm512_cvtepi8_epi32(load128(rec + 32 + 2 * group * kTile));
    s.sc1 = _mm512_cvtepi8_epi32(load128(rec + 32 + (2 * group + 1) * kTile));
  } else if constexpr (F::kScales == Scales::kBiasedQ3) {
    const SixBits six = six_bits(rec + 32, group);
    s.scale = halves(rec);
    s.sc0 = _mm512_sub_epi32(six.first, _mm512_set1_epi32(32));
    s.sc1 = _mm512_sub_epi32(six.second, _mm512_set1_epi32(32));
  } else if constexpr (F::kScales == Scales::kNibbles) {
    const __m512i a = _mm512_cvtepu8_epi32(load128(rec + 64 + 2 * group * kTile)), nibble = _mm512_set1_epi32(15);
    const __m512i b = _mm512_cvtepu8_epi32(load128(rec + 64 + (2 * group + 1) * kTile));
    s.scale = halves(rec);
    s.minus_min = negated(halves(rec + 32));
    s.sc0 = _mm512_and_si512(a, nibble);
    s.sc1 = _mm512_and_si512(b, nibble);
    s.m0 = _mm512_srli_epi32(a, 4);
    s.m1 = _mm512_srli_epi32(b, 4);
  } else {
    const SixBits six = six_bits(rec + 64, group);
    s.scale = _mm512_mul_ps(halves(rec), _mm512_cvtepi32_ps(six.first));
    s.minus_min = negated(_mm512_mul_ps(halves(rec + 32), _mm512_cvtepi32_ps(six.second)));
  }
  return s;
}

EDGEDEC_INLINE __m512i broadcast4(const int8_t* x, int s) {
  int32_t four;
  __builtin_memcpy(&four, x + 4 * s, 4);
  return _mm512_set1_epi32(four);
}

// The factor of the minimum: the sum of activations, or of both halves' sums times their integer minima.
template <class F>
EDGEDEC_INLINE __m512 min_sums(const GroupScales& s, const int32_t* sum) {
  if constexpr (!kHalves<F>) return _mm512_set1_ps(static_cast<float>(sum[0] + sum[1]));
  return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_mullo_epi32(s.m0, _mm512_set1_epi32(sum[0])),
                                             _mm512_mullo_epi32(s.m1, _mm512_set1_epi32(sum[1]))));
}

// From the raw unsigned dot products of a group (of its halves where those have scales, else only lo) to the new
// accumulator.
template <class F>
EDGEDEC_INLINE __m512 step(__m512i lo, __m512i hi, const GroupScales& s, const Acts& x, size_t at, __m512 acc) {
  const int32_t* sum = x.sum + 2 * at;
  __m512i isum = lo;
  if constexpr (kHalves<F>) {
    const __m512i a = _mm512_sub_epi32(lo, _mm512_set1_epi32(F::kOffset * sum[0]));
    const __m512i b = _mm512_sub_epi32(hi, _mm512_set1_epi32(F::kOffset * sum[1]));
    isum = _mm512_add_epi32(_mm512_mullo_epi32(a, s.sc0), _mm512_mullo_epi32(b, s.sc1));
  } else if constexpr (F::kOffset != 0) {
    isum = _mm512_sub_epi32(lo, _mm512_set1_epi32(F::kOffset * (sum[0] + sum[1])));
  }
  __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), s.scale);
  if constexpr (F::kMin) t = _mm512_fmadd_ps(s.minus_min, min_sums<F>(s, sum), t);
  return _mm512_fmadd_ps(t, _mm512_set1_ps(x.scale[at]), acc);
}

EDGEDEC_INLINE void store_columns(__m512 acc, float* out, int columns) {
  if (columns >= kTile) {
    _mm512_storeu_ps(out, acc);
    return;
  }
  float all[kTile];
  _mm512_storeu_ps(all, acc);
  for (int c = 0; c < columns; ++c) out[c] = all[c];
}

template <class F>
EDGEDEC_INLINE void group_rows(const uint8_t* rec, int group, const Acts& x, int m0, int n, int index, __m512* acc) {
  __m512i w[kSteps];
  for (int s = 0; s < kSteps; ++s) w[s] = unpack<F>(rec, group, s);
  const GroupScales scales = group_scales<F>(rec, group);
  for (int m = 0; m < n; ++m) {
    const size_t at = static_cast<size_t>(m0 + m) * (x.k / kGroup) + index;
    const int8_t* q = x.q + at * kGroup;
    // Two chains, because one would wait five cycles for each of its eight links.
    __m512i lo = _mm512_setzero_si512(), hi = lo;
    for (int s = 0; s < kSteps / 2; ++s) {
      lo = _mm512_dpbusd_epi32(lo, w[s], broadcast4(q, s));
      hi = _mm512_dpbusd_epi32(hi, w[s + kSteps / 2], broadcast4(q, s + kSteps / 2));
    }
    if constexpr (!kHalves<F>) lo = _mm512_add_epi32(lo, hi);
    acc[m] = step<F>(lo, hi, scales, x, at, acc[m]);
  }
}

template <class F, bool ONE>
void vnni_tile(const Weight& w, const Acts& x, int tile, int m0, int n, float* out, size_t ldo) {
  constexpr int kGroups = F::kRecord / kGroup;
  __m512 acc[ONE ? 1 : kRowsAtOnce];
  for (int m = 0; m < (ONE ? 1 : n); ++m) acc[m] = _mm512_setzero_ps();
  const uint8_t* rec = w.data + w.tile_bytes() * tile;
  const int records = w.records();
  for (int r = 0; r < records; ++r, rec += F::kBytes)
    for (int g = 0; g < kGroups; ++g) {
      if (g % 2 == 0) prefetch_pair<F>(rec, g);
      group_rows<F>(rec, g, x, m0, ONE ? 1 : n, r * kGroups + g, acc);
    }
  const int columns = w.rows - tile * kTile;
  for (int m = 0; m < (ONE ? 1 : n); ++m) store_columns(acc[m], out + m * ldo, columns);
}

template <class F>
void vnni_tiles(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (int tile = tile0; tile < tile1; ++tile)
    for (int m = m0; m < m1; m += kRowsAtOnce) {
      const int n = m1 - m < kRowsAtOnce ? m1 - m : kRowsAtOnce;
      float* at = out + static_cast<size_t>(m - m0) * ldo + (tile - tile0) * kTile;
      n == 1 ? vnni_tile<F, true>(w, x, tile, m, n, at, ldo) : vnni_tile<F, false>(w, x, tile, m, n, at, ldo);
    }
}

}  // namespace
}  // namespace edgedec::quant_linear
