// Byte products of 512-bit registers.
//
// Sixteen keys are turned so that a register has four elements of each of them, and one instruction multiplies these with
// four elements of a query, which it reads from memory. It wants one factor without a sign: keys get 128 more, and sums begin
// at -128 times the query's own. Four values are mixed so that a register has four of each column.
#pragma once

#include "byte_products/byte_products.h"
#include "simd/vec16_avx512.h"

namespace edgedec::byte_products {
namespace {

// Of prefetches: the hardware's stop at the end of a page. With 4,096 one token over 12,000 keys of 128 took 1.5 times as long.
constexpr size_t kAheadBytes = 12288;

EDGEDEC_INLINE __m512i loaded(const void* p) { return _mm512_loadu_si512(p); }

// The compiler would load it again for each use, or copy sums that it adds to: a product takes no longer than a load.
EDGEDEC_INLINE void in_register([[maybe_unused]] __m512i& x) {
#ifndef EDGEDEC_EMULATE_AVX512
  asm("" : "+v"(x));
#endif
}

// Sixteen bytes of four rows that are `apart` bytes apart.
EDGEDEC_INLINE __m512i four_rows(const int8_t* p, size_t apart) {
  const auto part = [&](size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * apart)); };
  __m512i found = _mm512_castsi128_si512(part(0));
  found = _mm512_inserti32x4(found, part(1), 1);
  found = _mm512_inserti32x4(found, part(2), 2);
  return _mm512_inserti32x4(found, part(3), 3);
}

// Sixteen elements of sixteen rows, plus 128: turned[i] has elements 4 i .. 4 i + 3 of each.
EDGEDEC_INLINE void turn_keys(const int8_t* p, size_t stride, __m512i* turned) {
  const __m512i a = four_rows(p, 4 * stride), b = four_rows(p + stride, 4 * stride);
  const __m512i d = four_rows(p + 2 * stride, 4 * stride), e = four_rows(p + 3 * stride, 4 * stride);
  const __m512i ab = _mm512_unpacklo_epi32(a, b), de = _mm512_unpacklo_epi32(d, e);
  const __m512i AB = _mm512_unpackhi_epi32(a, b), DE = _mm512_unpackhi_epi32(d, e);
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  turned[0] = _mm512_xor_si512(_mm512_unpacklo_epi64(ab, de), sign);
  turned[1] = _mm512_xor_si512(_mm512_unpackhi_epi64(ab, de), sign);
  turned[2] = _mm512_xor_si512(_mm512_unpacklo_epi64(AB, DE), sign);
  turned[3] = _mm512_xor_si512(_mm512_unpackhi_epi64(AB, DE), sign);
}

// 4 STEPS elements of sixteen rows.
template <int STEPS>
EDGEDEC_INLINE void turn(const int8_t* p, size_t stride, __m512i* turned) {
  for (size_t s = 0; s < STEPS; s += 4) turn_keys(p + 4 * s, stride, turned + s);
}

// Of up to sixteen, and anything for those that are not there.
template <int STEPS>
EDGEDEC_INLINE void turn_some(const int8_t* p, size_t stride, size_t count, __m512i* turned) {
  if (count >= 16) return turn<STEPS>(p, stride, turned);
  alignas(64) int8_t rows[16 * 4 * STEPS] = {};
  for (size_t i = 0; i < count; ++i) __builtin_memcpy(rows + i * 4 * STEPS, p + i * stride, 4 * STEPS);
  turn<STEPS>(rows, 4 * STEPS, turned);
}

EDGEDEC_INLINE void prefetch_rows(const int8_t* p, size_t stride, size_t count) {
  for (size_t i = 0; i < count; ++i, p += stride) __builtin_prefetch(p + kAheadBytes, 0, 3);
}

// Sums of V queries and KEYS times sixteen turned keys; query(v) is a query's bytes, start(v) what its sums begin with.
template <int STEPS, int KEYS, int V, class Q, class S>
EDGEDEC_INLINE void score_tile(const __m512i (*turned)[STEPS], Q query, S start, __m512i (*sum)[KEYS]) {
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 2
    for (int k = 0; k < KEYS; ++k) sum[v][k] = _mm512_set1_epi32(start(v));
#pragma GCC unroll 8
  for (int s = 0; s < STEPS; ++s)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      int32_t four;
      __builtin_memcpy(&four, query(v) + 4 * s, 4);
      const __m512i bytes = _mm512_set1_epi32(four);
#pragma GCC unroll 2
      for (int k = 0; k < KEYS; ++k) sum[v][k] = _mm512_dpbusd_epi32(sum[v][k], turned[k][s], bytes);
    }
}

template <int STEPS, int V>
EDGEDEC_INLINE void store_scores(const Vector* vectors, const __m512i (*turned)[STEPS], int32_t* sums, size_t stride) {
  __m512i sum[V][1];
  score_tile<STEPS, 1, V>(turned, [=](int v) { return vectors[v].bytes; }, [=](int v) { return -128 * vectors[v].sum; }, sum);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) _mm512_storeu_si512(sums + static_cast<size_t>(v) * stride, sum[v][0]);
}

template <int STEPS>
EDGEDEC_INLINE void score_tiles(const Vector* vectors, size_t count, const Rows& keys, int32_t* sums, size_t stride) {
  for (size_t j = 0; j < keys.count; j += 16) {
    __m512i turned[1][STEPS];
    turn_some<STEPS>(keys.first + j * keys.stride, keys.stride, keys.count - j, turned[0]);
    size_t v = 0;
    for (; v + 4 <= count; v += 4) store_scores<STEPS, 4>(vectors + v, turned, sums + v * stride + j, stride);
    for (; v < count; ++v) store_scores<STEPS, 1>(vectors + v, turned, sums + v * stride + j, stride);
  }
}

inline void vnni_scores(const Vector* vectors, size_t count, const Rows& keys, size_t width, int32_t* sums, size_t stride) {
  width == kKeyWidth ? score_tiles<8>(vectors, count, keys, sums, stride) : score_tiles<4>(vectors, count, keys, sums, stride);
}

// Adds the products of V queries with a group of 32 keys (KEYS is 2), or of `left` up to sixteen (1).
template <int STEPS, int KEYS, bool BEGUN, int V>
EDGEDEC_INLINE void add_tile(const Group* const* groups, size_t g, const __m512i (*turned)[STEPS], const float* scales, size_t left,
                             float* const* scores, size_t j) {
  using F = Vec16Avx512;
  const Group* group[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) group[v] = groups[v] + g;
  __m512i sum[V][KEYS];
  score_tile<STEPS, KEYS, V>(turned, [&](int v) { return group[v]->bytes; }, [&](int v) { return -128 * group[v]->sum; }, sum);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 2
    for (int k = 0; k < KEYS; ++k) {
      float* at = scores[v] + j + 16 * k;
      const F both = F::mul(F::load(scales + 16 * k), F::broadcast(group[v]->scale));
      const F before = !BEGUN ? F::broadcast(0.0f) : KEYS == 2 ? F::load(at) : F::load_partial(at, left);
      const F total = F::fma({_mm512_cvtepi32_ps(sum[v][k])}, both, before);
      KEYS == 2 ? total.store(at) : total.store_partial(at, left);
    }
}

template <int STEPS, int KEYS, bool BEGUN>
void add_group(const Group* const* groups, size_t g, size_t count, const Rows& keys, size_t j, const float* scales,
               float* const* scores) {
  __m512i turned[KEYS][STEPS];
  const int8_t* p = keys.first + j * keys.stride + g * kKeyWidth;
  const size_t left = keys.count - j < 16 ? keys.count - j : 16;
  for (size_t k = 0; k < KEYS; ++k) turn_some<STEPS>(p + 16 * k * keys.stride, keys.stride, left, turned[k]);
  if (g % 2 == 0) prefetch_rows(p, keys.stride, KEYS == 2 ? 32 : left);
  size_t v = 0;
  for (; v + 4 <= count; v += 4) add_tile<STEPS, KEYS, BEGUN, 4>(groups + v, g, turned, scales, left, scores + v, j);
  for (; v + 2 <= count; v += 2) add_tile<STEPS, KEYS, BEGUN, 2>(groups + v, g, turned, scales, left, scores + v, j);
  if (v < count) add_tile<STEPS, KEYS, BEGUN, 1>(groups + v, g, turned, scales, left, scores + v, j);
}

template <bool BEGUN>
EDGEDEC_INLINE auto group_adder(bool half, bool few) {
  return half ? few ? add_group<4, 1, BEGUN> : add_group<4, 2, BEGUN> : few ? add_group<8, 1, BEGUN> : add_group<8, 2, BEGUN>;
}

inline void vnni_add_scores(const Group* const* groups, size_t count, const Rows& keys, size_t width, const float* scales, bool begun,
                            float* const* scores) {
  for (size_t j = 0, step; j < keys.count; j += step) {
    step = keys.count - j < 32 ? 16 : 32;
    for (size_t g = 0; g * kKeyWidth < width; ++g) {
      const bool half = width - g * kKeyWidth < kKeyWidth;
      const auto add = begun || g ? group_adder<true>(half, step == 16) : group_adder<false>(half, step == 16);
      add(groups, g, count, keys, j, scales + g * kMostRows + j, scores);
    }
  }
}

// Four values of up to 64 columns, mixed: mixed[i] has columns 16 i .. 16 i + 15. Mixing stays within 16 bytes, so these get
// four columns of each register before.
EDGEDEC_INLINE void mix_four(const __m512i* row, __m512i* mixed) {
  const __m512i a = _mm512_unpacklo_epi8(row[0], row[1]), b = _mm512_unpackhi_epi8(row[0], row[1]);
  const __m512i c = _mm512_unpacklo_epi8(row[2], row[3]), d = _mm512_unpackhi_epi8(row[2], row[3]);
  mixed[0] = _mm512_unpacklo_epi16(a, c), mixed[1] = _mm512_unpackhi_epi16(a, c);
  mixed[2] = _mm512_unpacklo_epi16(b, d), mixed[3] = _mm512_unpackhi_epi16(b, d);
}

template <bool WHOLE>
EDGEDEC_INLINE void mix_values(const Rows& values, size_t j, __mmask64 columns, __m512i* mixed) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const int8_t* at = values.first + j * values.stride;
  __m512i row[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i, at += values.stride) {
    if (WHOLE)
      row[i] = _mm512_permutexvar_epi32(order, loaded(at));
    else
      row[i] = j + i < values.count ? _mm512_permutexvar_epi32(order, _mm512_maskz_loadu_epi8(columns, at)) : _mm512_setzero_si512();
    __builtin_prefetch(at + kAheadBytes, 0, 3);
  }
  mix_four(row, mixed);
}

// Calls add(v, sums) with the sums of row v of weights, C registers of sixteen columns, for V rows from v on.
template <int C, int V, class F>
EDGEDEC_INLINE void value_tile(const uint8_t* weights, const __m512i (*mixed)[4], size_t groups, size_t v, F add) {
  __m512i sum[V][C];
#pragma GCC unroll 5
  for (int r = 0; r < V; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < C; ++i) sum[r][i] = _mm512_setzero_si512();
  weights += v * kMostRows;
  size_t g = 0;
  do {
    __m512i values[C];
#pragma GCC unroll 4
    for (int i = 0; i < C; ++i) {
      values[i] = mixed[g][i];
      in_register(values[i]);
    }
#pragma GCC unroll 5
    for (int r = 0; r < V; ++r) {
      int32_t four;
      __builtin_memcpy(&four, weights + static_cast<size_t>(r) * kMostRows + 4 * g, 4);
      const __m512i weight = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int i = 0; i < C; ++i) {
        sum[r][i] = _mm512_dpbusd_epi32(sum[r][i], weight, values[i]);
        in_register(sum[r][i]);
      }
    }
  } while (++g < groups);
#pragma GCC unroll 5
  for (int r = 0; r < V; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < C; ++i) add(v + static_cast<size_t>(r), static_cast<size_t>(16 * i), sum[r][i]);
}

template <int C, class F>
EDGEDEC_INLINE void value_tiles(const uint8_t* weights, size_t count, const Rows& values, F add) {
  __m512i mixed[kMostRows / 4][4];
  const __mmask64 columns = C == 4 ? ~0ull : (1ull << C * 16) - 1;
  const size_t groups = (values.count + 3) / 4;
  size_t g = 0;
  for (; C == 4 && 4 * g + 4 <= values.count; ++g) mix_values<true>(values, 4 * g, columns, mixed[g]);
  for (; g < groups; ++g) mix_values<false>(values, 4 * g, columns, mixed[g]);
  size_t v = 0;
  for (; v + 3 <= count; v += 3) value_tile<C, 3>(weights, mixed, groups, v, add);
  for (; v < count; ++v) value_tile<C, 1>(weights, mixed, groups, v, add);
}

template <class F>
EDGEDEC_INLINE void value_columns(const uint8_t* weights, size_t count, const Rows& values, size_t width, F add) {
  switch (width / 16) {
    case 1: return value_tiles<1>(weights, count, values, add);
    case 2: return value_tiles<2>(weights, count, values, add);
    case 3: return value_tiles<3>(weights, count, values, add);
    default: return value_tiles<4>(weights, count, values, add);
  }
}

inline void vnni_values(const uint8_t* weights, size_t count, const Rows& values, size_t width, int32_t* sums) {
  value_columns(weights, count, values, width, [=](size_t v, size_t c, __m512i sum) {
    int32_t* at = sums + v * kMostWidth + c;
    _mm512_storeu_si512(at, _mm512_add_epi32(loaded(at), sum));
  });
}

inline void vnni_add_values(const uint8_t* weights, const float* factors, size_t count, const Rows& values, size_t width,
                            float* const* out) {
  using F = Vec16Avx512;
  value_columns(weights, count, values, width, [=](size_t v, size_t c, __m512i sum) {
    F::fma({_mm512_cvtepi32_ps(sum)}, F::broadcast(factors[v]), F::load(out[v] + c)).store(out[v] + c);
  });
}

}  // namespace
}  // namespace edgedec::byte_products
