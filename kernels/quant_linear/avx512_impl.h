// The 512-bit rows: one register holds a step of all sixteen columns.
#pragma once

#include "simd/avx512.h"
#include "quant_linear/quantise_avx2.h"
#include "quant_linear/tile_loop.h"

namespace edgedec::quant_linear {
namespace {

EDGEDEC_INLINE __m512i load(const void* p) { return _mm512_loadu_si512(p); }
EDGEDEC_INLINE __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// Adds those bits of every byte of `high` that a shift to the left (to the right if negative) brings under the mask.
EDGEDEC_INLINE __m512i with_bits(__m512i low, __m512i high, int left, char mask) {
  const __m512i moved = left < 0 ? _mm512_srli_epi16(high, -left) : _mm512_slli_epi16(high, left);
  return _mm512_or_si512(low, _mm512_and_si512(moved, _mm512_set1_epi8(mask)));
}

template <class F>
EDGEDEC_INLINE __m512i lookup(__m512i index) {
  const __m128i values = _mm_add_epi8(load128(F::kValues), _mm_set1_epi8(static_cast<int8_t>(F::kOffset)));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), index);
}

// Quants of one step as unsigned bytes. ODD: the parity of the group.
template <class F, int ODD>
EDGEDEC_INLINE __m512i unpack(const uint8_t* rec, unsigned group, int s) {
  if constexpr (F::kBits == 8) return load(rec + F::kLo + (group * kSteps + s) * 64);
  if constexpr (F::kBits < 4) {
    const __m512i bits = load(rec + F::kLo + group * 128 + s / 4 * 64);
    const __m512i crumbs = _mm512_and_si512(_mm512_srli_epi16(bits, 2 * (s % 4)), _mm512_set1_epi8(3));
    if constexpr (F::kBits == 2) return crumbs;
    const __m512i index = with_bits(crumbs, load(rec + F::kHi + group * 64), 2 - s, 1 << 2);
    if constexpr (kLookup<F>) return lookup<F>(index);
    return index;
  }
  const __m512i bytes = load(rec + F::kLo + group / 2 * 512 + s * 64);
  const __m512i shifted = ODD ? _mm512_srli_epi16(bytes, 4) : bytes;
  const __m512i lo = _mm512_and_si512(shifted, _mm512_set1_epi8(15));
  if constexpr (F::kBits == 5) {
    return with_bits(lo, load(rec + F::kHi + group * 64), 4 - s, 1 << 4);
  } else if constexpr (F::kBits == 6) {
    return with_bits(lo, load(rec + F::kHi + group * 128 + s / 4 * 64), 4 - 2 * (s % 4), 3 << 4);
  } else if constexpr (kLookup<F>) {
    return lookup<F>(lo);
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
  __m512 sc0, sc1, m0, m1;  // only with scales of halves: integers, or short floats
};

// 2n + 1 of the low nibbles n.
EDGEDEC_INLINE __m512 odd_floats(__m128i v) {
  const __m128i n = _mm_and_si128(v, _mm_set1_epi8(15));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_add_epi8(_mm_add_epi8(n, n), _mm_set1_epi8(1))));
}

// Floats of 8 bits without their sign.
template <class F>
EDGEDEC_INLINE __m512 float8(const uint8_t* p) {
  const __m256i bits = _mm256_slli_epi16(_mm256_cvtepu8_epi16(load128(p)), 7);
  return _mm512_mul_ps(_mm512_cvtph_ps(bits), _mm512_set1_ps(F::kUnit));
}

EDGEDEC_INLINE __m512 small_floats(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)); }

// The two 6-bit numbers of a group: scale and minimum, or the scales of both halves (Q3_K).
struct SixBits {
  __m512 first, second;
};
template <int ODD>
EDGEDEC_INLINE SixBits six_bits(const uint8_t* field, unsigned group) {
  const uint8_t* pair = field + group / 2 * 48;
  const __m128i low = load128(pair + ODD * 16), nibble = _mm_set1_epi8(15), two = _mm_set1_epi8(3);
  const __m128i high = ODD ? _mm_srli_epi16(load128(pair + 32), 4) : load128(pair + 32);
  const __m128i a = _mm_or_si128(_mm_and_si128(low, nibble), _mm_slli_epi16(_mm_and_si128(high, two), 4));
  const __m128i b = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(low, 4), nibble),
                                 _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(high, 2), two), 4));
  return {small_floats(a), small_floats(b)};
}

EDGEDEC_INLINE __m512 negated(__m512 v) {
  return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN)));
}

template <class F, int ODD>
EDGEDEC_INLINE GroupScales group_scales(const uint8_t* rec, unsigned group) {
  GroupScales s;
  s.minus_min = s.sc0 = s.sc1 = s.m0 = s.m1 = _mm512_setzero_ps();
  if constexpr (F::kScales == Scales::kHalf) {
    s.scale = halves(rec + group * 32);
    if constexpr (F::kMin) s.minus_min = halves(rec + 64 + group * 32);
  } else if constexpr (F::kScales == Scales::kExponent) {
    s.scale = exponent_scales(rec + group * kTile);
  } else if constexpr (F::kScales == Scales::kSignedQ6) {
    s.scale = halves(rec);
    s.sc0 = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(rec + 32 + 2 * group * kTile)));
    s.sc1 = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(rec + 32 + (2 * group + 1) * kTile)));
  } else if constexpr (F::kScales == Scales::kBiasedQ3) {
    const SixBits six = six_bits<ODD>(rec + 32, group);
    s.scale = halves(rec);
    s.sc0 = _mm512_sub_ps(six.first, _mm512_set1_ps(32));
    s.sc1 = _mm512_sub_ps(six.second, _mm512_set1_ps(32));
  } else if constexpr (F::kScales == Scales::kRecord) {
    s.scale = halves(rec);
  } else if constexpr (F::kScales == Scales::kSigned) {
    const __m512 sc = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(rec + 32 + group * kTile)));
    s.scale = _mm512_mul_ps(_mm512_mul_ps(halves(rec), _mm512_set1_ps(F::kUnit)), sc);
  } else if constexpr (F::kScales == Scales::kOdd) {
    const __m128i both = load128(rec + 32 + group * kTile);
    s.scale = _mm512_mul_ps(halves(rec), _mm512_set1_ps(F::kUnit));
    s.sc0 = odd_floats(both);
    s.sc1 = odd_floats(_mm_srli_epi16(both, 4));
  } else if constexpr (kFloatScales<F>) {
    s.scale = _mm512_loadu_ps(reinterpret_cast<const float*>(rec));
    s.sc0 = float8<F>(rec + 64 + 2 * group * kTile);
    s.sc1 = float8<F>(rec + 64 + (2 * group + 1) * kTile);
  } else if constexpr (F::kScales == Scales::kNibbles) {
    const __m128i a = load128(rec + 64 + 2 * group * kTile), nibble = _mm_set1_epi8(15);
    const __m128i b = load128(rec + 64 + (2 * group + 1) * kTile);
    s.scale = halves(rec);
    s.minus_min = negated(halves(rec + 32));
    s.sc0 = small_floats(_mm_and_si128(a, nibble));
    s.sc1 = small_floats(_mm_and_si128(b, nibble));
    s.m0 = small_floats(_mm_and_si128(_mm_srli_epi16(a, 4), nibble));
    s.m1 = small_floats(_mm_and_si128(_mm_srli_epi16(b, 4), nibble));
  } else {
    const SixBits six = six_bits<ODD>(rec + 64, group);
    s.scale = _mm512_mul_ps(halves(rec), six.first);
    s.minus_min = negated(_mm512_mul_ps(halves(rec + 32), six.second));
  }
  return s;
}

// Adds the products of 64 unsigned weights and, in every column, the same four bytes of x.
EDGEDEC_INLINE __m512i dot4(__m512i sum, __m512i w, const int8_t* x) {
#if defined(EDGEDEC_EMULATE_AVX512) || defined(__clang__)
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
#else
  // One instruction broadcasts and multiplies. GCC makes two of the intrinsics, and decoding instructions is the limit
  // here on processors that decode four a cycle, such as Cascade Lake. Clang joins them itself.
  typedef int32_t __attribute__((may_alias, aligned(1))) Four;
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*reinterpret_cast<const Four*>(x)));
  return sum;
#endif
}

// Where a sum of products begins: what the offset of the quants adds, with the other sign. As an integer it costs no
// float op, of which the products leave few a cycle.
template <class F>
EDGEDEC_INLINE __m512i begin_sum(int32_t sum_of_x) {
  return F::kOffset == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(-F::kOffset * sum_of_x);
}

EDGEDEC_INLINE __m512 broadcast(int32_t value) { return _mm512_cvtepi32_ps(_mm512_set1_epi32(value)); }

// The sums of both halves of a group by their integer scales. The integers are below 2^24, so floats hold them and their
// products exactly. Only the last sum rounds, as the conversion of their integer sum would.
EDGEDEC_INLINE __m512 first_half(__m512i sum, const GroupScales& s) {
  return _mm512_mul_ps(_mm512_cvtepi32_ps(sum), s.sc0);
}
EDGEDEC_INLINE __m512 both_halves(__m512i sum, const GroupScales& s, __m512 first) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), s.sc1, first);
}

// From the sum of a group to the new accumulator.
template <class F>
EDGEDEC_INLINE __m512 step(__m512 isum, const GroupScales& s, const Acts& x, size_t at, __m512 acc) {
  __m512 t = _mm512_mul_ps(isum, s.scale);
  if constexpr (F::kMin && kHalves<F>) {
    const __m512 sum0 = broadcast(x.sum[2 * at]), sum1 = broadcast(x.sum[2 * at + 1]);
    t = _mm512_fmadd_ps(s.minus_min, _mm512_fmadd_ps(s.m1, sum1, _mm512_mul_ps(s.m0, sum0)), t);
  } else if constexpr (F::kMin) {
    t = _mm512_fmadd_ps(s.minus_min, _mm512_set1_ps(x.total[at]), t);
  }
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

// The class C of tile_loop.h: sums of up to eight tokens stay in registers, and one unpacked step serves them all.
template <int STREAMS>
struct Columns512 {
  using Sums = __m512;
  static constexpr int kStreams = STREAMS;
#ifdef EDGEDEC_EMULATE_AVX512
  static constexpr int kFew = 4;  // each number of tokens is code of its own, which takes long to compile from SIMDe
#else
  static constexpr int kFew = 8;
#endif
  static constexpr int kRowsAtOnce = kFew;
  static constexpr bool kUnpacks = false;

  static EDGEDEC_INLINE Sums zero() { return _mm512_setzero_ps(); }
  static EDGEDEC_INLINE void store(const Sums& acc, float* out, int columns) { store_columns(acc, out, columns); }

  // Adds the products of steps [FROM, TO) to one sum for each token.
  template <class F, int ODD, int N, int FROM, int TO>
  static EDGEDEC_INLINE void add_steps(const uint8_t* rec, int g, const int8_t* const* q, __m512i* sum) {
#pragma GCC unroll 8
    for (int s = FROM; s < TO; ++s) {
      const __m512i w = unpack<F, ODD>(rec, g, s);
#pragma GCC unroll 8
      for (int m = 0; m < N; ++m) sum[m] = dot4(sum[m], w, q[m] + 4 * s);
    }
  }

  template <class F, int ODD, int N>
  static EDGEDEC_INLINE void group(const uint8_t* rec, int g, const Acts& x, int m0, int, int index, Sums* acc) {
    const GroupScales scales = group_scales<F, ODD>(rec, g);
    const size_t groups = static_cast<unsigned>(x.k) / kGroup, first = m0 * groups + index;
    const int8_t* q[N];
    for (int m = 0; m < N; ++m) {
      q[m] = m ? q[m - 1] + x.k : x.q + first * kGroup;
      EDGEDEC_IN_REGISTER(q[m]);
    }
    constexpr int kHalf = kSteps / 2;
    const auto sums = [&](size_t m) { return x.sum + 2 * (first + m * groups); };
    __m512 isum[N];
    __m512i lo[N], hi[N];
    if constexpr (kHalves<F>) {
      // The sums of both halves of eight tokens are, beside their accumulators, more than the registers hold.
      constexpr bool kTogether = N < 8;
#pragma GCC unroll 8
      for (int m = 0; m < N; ++m) {
        lo[m] = begin_sum<F>(sums(m)[0]);
        if constexpr (kTogether) hi[m] = begin_sum<F>(sums(m)[1]);
      }
      add_steps<F, ODD, N, 0, kHalf>(rec, g, q, lo);
#pragma GCC unroll 8
      for (int m = 0; m < N; ++m) {
        isum[m] = first_half(lo[m], scales);
        if constexpr (!kTogether) hi[m] = begin_sum<F>(sums(m)[1]);
      }
      add_steps<F, ODD, N, kHalf, kSteps>(rec, g, q, hi);
#pragma GCC unroll 8
      for (int m = 0; m < N; ++m) isum[m] = both_halves(hi[m], scales, isum[m]);
    } else {
      // With few tokens two chains each, because one would wait five cycles for each of its eight links.
      constexpr bool kTwo = N < 4;
#pragma GCC unroll 8
      for (int m = 0; m < N; ++m) lo[m] = begin_sum<F>(sums(m)[0] + sums(m)[1]), hi[m] = _mm512_setzero_si512();
      add_steps<F, ODD, N, 0, kHalf>(rec, g, q, lo);
      add_steps<F, ODD, N, kHalf, kSteps>(rec, g, q, kTwo ? hi : lo);
#pragma GCC unroll 8
      for (int m = 0; m < N; ++m) isum[m] = _mm512_cvtepi32_ps(kTwo ? _mm512_add_epi32(lo[m], hi[m]) : lo[m]);
    }
#pragma GCC unroll 8
    for (int m = 0; m < N; ++m) acc[m] = step<F>(isum[m], scales, x, first + m * groups, acc[m]);
  }
};

template <class F>
constexpr TilesFn vnni_tiles = best_tile_loop<F, Columns512<1>, Columns512<kStreams>>;

}  // namespace
}  // namespace edgedec::quant_linear
