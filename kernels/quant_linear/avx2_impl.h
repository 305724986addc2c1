// The 256-bit rows: dot products of unsigned quants with signed activations. A policy D chooses the instruction.
#pragma once

#include "quant_linear/quantise_avx2.h"
#include "quant_linear/tile_loop.h"

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
    const __m256i hi = _mm256_srli_epi16(load(rec + F::kHi + group * 64 + offset), s);
    return _mm256_or_si256(crumbs, _mm256_slli_epi16(_mm256_and_si256(hi, _mm256_set1_epi8(1)), 2));
  }
  const __m256i bytes = load(rec + F::kLo + group / 2 * 512 + s * 64 + offset);
  const __m256i shifted = ODD ? _mm256_srli_epi16(bytes, 4) : bytes;
  const __m256i lo = _mm256_and_si256(shifted, _mm256_set1_epi8(15));
  if constexpr (F::kBits == 5) {
    const __m256i hi = _mm256_srli_epi16(load(rec + F::kHi + group * 64 + offset), s);
    return _mm256_or_si256(lo, _mm256_slli_epi16(_mm256_and_si256(hi, _mm256_set1_epi8(1)), 4));
  } else if constexpr (F::kBits == 6) {
    const __m256i bits = load(rec + F::kHi + group * 128 + s / 4 * 64 + offset);
    const __m256i hi = _mm256_srli_epi16(bits, 2 * (s % 4));
    return _mm256_or_si256(lo, _mm256_slli_epi16(_mm256_and_si256(hi, _mm256_set1_epi8(3)), 4));
  } else if constexpr (kLookup<F>) {
    const __m256i values = _mm256_broadcastsi128_si256(load128(F::kValues));
    const __m256i offset_values = _mm256_add_epi8(values, _mm256_set1_epi8(static_cast<int8_t>(F::kOffset)));
    return _mm256_shuffle_epi8(SIGNED ? values : offset_values, lo);
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
  Pair sc, mins;  // only with scales of halves: scale_pairs
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

template <class F, int ODD>
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
  return s;
}

EDGEDEC_INLINE __m256i broadcast4(const int8_t* x, int s) {
  int32_t four;
  __builtin_memcpy(&four, x + 4 * s, 4);
  return _mm256_set1_epi32(four);
}

// Whether policy D takes the quants of F signed.
template <class F, class D>
constexpr bool kSigned = D::kSignedBytes && kMaxQuant<F> > 127;

// Unpacked quants of a group, one half of the columns: for few tokens straight from the record, for more from a buffer
// that stays in the first-level cache.
template <class F, int ODD, bool SIGNED>
struct FromRecord {
  const uint8_t* rec;
  int group;
  EDGEDEC_INLINE __m256i at(int s, int half) const { return unpack_half<F, ODD, SIGNED>(rec, group, s, half * 32); }
};
struct FromBuffer {
  const __m256i* w;
  EDGEDEC_INLINE __m256i at(int s, int half) const { return w[2 * s + half]; }
};

// A pair of integers per column times the sums of 16 activations each, which fit 16 bits.
EDGEDEC_INLINE Pair times_sums(const Pair& of_halves, const int32_t* sum) {
  const __m256i sums = _mm256_set1_epi32((sum[0] & 0xffff) | sum[1] * 65536);
  return {_mm256_madd_epi16(of_halves.a, sums), _mm256_madd_epi16(of_halves.b, sums)};
}

// The exact integers of a group for R tokens: policy D sums products; the sums of activations correct for the offset.
template <class F, class D, int R, class W>
EDGEDEC_INLINE void group_sums(const W& w, const GroupScales& s, const int8_t* const* x, const int32_t* const* sum,
                               Pair* out) {
  D::template dot<F, R>(w, s.sc, x, out);
  for (int r = 0; r < R; ++r) {
    Pair off = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    if constexpr (kHalves<F> && F::kOffset != 0) {
      constexpr int kShift = F::kOffset == 32 ? 5 : 2;
      static_assert(F::kOffset == 1 << kShift, "a power of two");
      off = times_sums(s.sc, sum[r]);
      off = {_mm256_slli_epi32(off.a, kShift), _mm256_slli_epi32(off.b, kShift)};
    } else if constexpr (F::kOffset != 0 && !kSigned<F, D>) {
      off.a = off.b = _mm256_set1_epi32(F::kOffset * (sum[r][0] + sum[r][1]));
    } else {
      continue;
    }
    out[r] = {_mm256_sub_epi32(out[r].a, off.a), _mm256_sub_epi32(out[r].b, off.b)};
  }
}

template <class F>
EDGEDEC_INLINE __m256 step(__m256i isum, __m256 scale, __m256 minus_min, __m256 xsum, __m256 xscale, __m256 acc) {
  __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale);
  if constexpr (F::kMin) t = _mm256_fmadd_ps(minus_min, xsum, t);
  return _mm256_fmadd_ps(t, xscale, acc);
}

// The factor of the minimum: the sum of activations, or of both halves' sums times their integer minima.
template <class F>
EDGEDEC_INLINE PairF min_sums(const GroupScales& s, const Acts& x, size_t at) {
  if constexpr (kHalves<F> && F::kMin) {
    const Pair total = times_sums(s.mins, x.sum + 2 * at);
    return {_mm256_cvtepi32_ps(total.a), _mm256_cvtepi32_ps(total.b)};
  }
  const __m256 both = _mm256_set1_ps(x.total[at]);
  return {both, both};
}

// R tokens from m on.
template <class F, class D, int R, class W>
EDGEDEC_INLINE void group_tokens(const W& w, const GroupScales& s, const Acts& x, int m, int index, PairF* acc) {
  const int8_t* q[R];
  const int32_t* sum[R];
  const size_t groups = static_cast<unsigned>(x.k) / kGroup, first = m * groups + index;
  for (int r = 0; r < R; ++r) {
    q[r] = r ? q[r - 1] + x.k : x.q + first * kGroup;
    EDGEDEC_IN_REGISTER(q[r]);
    sum[r] = x.sum + 2 * (first + r * groups);
  }
  Pair isum[R];
  group_sums<F, D, R>(w, s, q, sum, isum);
  for (int r = 0; r < R; ++r) {
    const size_t at = first + r * groups;
    const PairF xsum = min_sums<F>(s, x, at);
    const __m256 xscale = _mm256_set1_ps(x.scale[at]);
    acc[r].a = step<F>(isum[r].a, s.scale.a, s.minus_min.a, xsum.a, xscale, acc[r].a);
    acc[r].b = step<F>(isum[r].b, s.scale.b, s.minus_min.b, xsum.b, xscale, acc[r].b);
  }
}

template <class F, class D, int ODD>
EDGEDEC_INLINE void group_many(const uint8_t* rec, int group, const Acts& x, int m0, int n, int index, PairF* acc) {
  __m256i buffer[2 * kSteps];
  const FromRecord<F, ODD, kSigned<F, D>> record{rec, group};
#pragma GCC unroll 16
  for (int i = 0; i < 2 * kSteps; ++i) buffer[i] = record.at(i / 2, i % 2);
  const FromBuffer w{buffer};
  const GroupScales s = group_scales<F, ODD>(rec, group);
  int m = 0;
  for (; m + 2 <= n; m += 2) group_tokens<F, D, 2>(w, s, x, m0 + m, index, acc + m);
  if (m < n) group_tokens<F, D, 1>(w, s, x, m0 + m, index, acc + m);
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

// The class C of tile_loop.h, with the integer products of policy D.
template <class D>
struct Columns256 {
  using Sums = PairF;
  static constexpr int kFew = D::kFew, kRowsAtOnce = 32;

  static EDGEDEC_INLINE Sums zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static EDGEDEC_INLINE void store(const Sums& acc, float* out, int columns) { store_columns(acc, out, columns); }

  template <class F, int ODD, int N>
  static EDGEDEC_INLINE void group(const uint8_t* rec, int g, const Acts& x, int m0, int n, int index, Sums* acc) {
    if constexpr (N != 0)
      group_tokens<F, D, N>(FromRecord<F, ODD, kSigned<F, D>>{rec, g}, group_scales<F, ODD>(rec, g), x, m0, index, acc);
    else
      group_many<F, D, ODD>(rec, g, x, m0, n, index, acc);
  }
};

template <class F, class D>
constexpr TilesFn tiles = tile_loop<F, Columns256<D>>;

}  // namespace
}  // namespace edgedec::quant_linear
