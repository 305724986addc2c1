// Byte products of 512-bit registers.
//
// Sixteen keys are turned so that a register has four elements of each of them, and one instruction multiplies these with
// four elements of a query, which it reads from memory. It wants one factor without a sign: keys get 128 more, and sums begin
// at -128 times the query's own. Four values are mixed so that a register has four of each column.
#pragma once

#include "byte_products/byte_products.h"
#include "simd/avx512.h"
#include "simd/inline.h"

namespace edgedec::byte_products {
namespace {

constexpr size_t kAheadBytes = 4096;  // of prefetches: the hardware's stop at the end of a page

EDGEDEC_INLINE __m512i loaded(const void* p) { return _mm512_loadu_si512(p); }

// Sixteen bytes of four rows that are four apart.
EDGEDEC_INLINE __m512i four_rows(const int8_t* const* rows, size_t c) {
  const auto part = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + c)); };
  __m512i found = _mm512_castsi128_si512(part(0));
  found = _mm512_inserti32x4(found, part(4), 1);
  found = _mm512_inserti32x4(found, part(8), 2);
  return _mm512_inserti32x4(found, part(12), 3);
}

// Elements c .. c + 15 of sixteen rows, plus 128: turned[i] has elements c + 4 i .. c + 4 i + 3 of each.
EDGEDEC_INLINE void turn_keys(const int8_t* const* rows, size_t c, __m512i* turned) {
  const __m512i a = four_rows(rows, c), b = four_rows(rows + 1, c);
  const __m512i d = four_rows(rows + 2, c), e = four_rows(rows + 3, c);
  const __m512i ab = _mm512_unpacklo_epi32(a, b), de = _mm512_unpacklo_epi32(d, e);
  const __m512i AB = _mm512_unpackhi_epi32(a, b), DE = _mm512_unpackhi_epi32(d, e);
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  turned[0] = _mm512_xor_si512(_mm512_unpacklo_epi64(ab, de), sign);
  turned[1] = _mm512_xor_si512(_mm512_unpackhi_epi64(ab, de), sign);
  turned[2] = _mm512_xor_si512(_mm512_unpacklo_epi64(AB, DE), sign);
  turned[3] = _mm512_xor_si512(_mm512_unpackhi_epi64(AB, DE), sign);
}

// Sums of V queries and sixteen turned keys.
template <int STEPS, int V>
EDGEDEC_INLINE void score_tile(const Vector* vectors, const int32_t* start, const __m512i* turned, int32_t* sums, size_t stride) {
  __m512i sum[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) sum[v] = _mm512_set1_epi32(start[v]);
#pragma GCC unroll 8
  for (int s = 0; s < STEPS; ++s)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      int32_t four;
      __builtin_memcpy(&four, vectors[v].bytes + 4 * s, 4);
      sum[v] = _mm512_dpbusd_epi32(sum[v], turned[s], _mm512_set1_epi32(four));
    }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) _mm512_storeu_si512(sums + static_cast<size_t>(v) * stride, sum[v]);
}

template <int STEPS>
EDGEDEC_INLINE void score_tiles(const Vector* vectors, size_t count, const Rows& keys, int32_t* sums, size_t stride) {
  int32_t start[kMostVectors];
  for (size_t v = 0; v < count; ++v) start[v] = -128 * vectors[v].sum;
  for (size_t j = 0; j < keys.count; j += 16) {
    const int8_t* rows[16];
    for (size_t i = 0; i < 16; ++i) {
      rows[i] = keys.first + (j + i < keys.count ? j + i : keys.count - 1) * keys.stride;
      __builtin_prefetch(rows[i] + kAheadBytes, 0, 3);
    }
    __m512i turned[STEPS];
    for (size_t s = 0; s < STEPS; s += 4) turn_keys(rows, 4 * s, turned + s);
    size_t v = 0;
    for (; v + 8 <= count; v += 8) score_tile<STEPS, 8>(vectors + v, start + v, turned, sums + v * stride + j, stride);
    for (; v + 3 <= count; v += 3) score_tile<STEPS, 3>(vectors + v, start + v, turned, sums + v * stride + j, stride);
    for (; v < count; ++v) score_tile<STEPS, 1>(vectors + v, start + v, turned, sums + v * stride + j, stride);
  }
}

inline void vnni_scores(const Vector* vectors, size_t count, const Rows& keys, size_t width, int32_t* sums, size_t stride) {
  width == kKeyWidth ? score_tiles<8>(vectors, count, keys, sums, stride) : score_tiles<4>(vectors, count, keys, sums, stride);
}

// Four values of up to 64 columns, mixed. The lane l of mixed[i] has columns 16 l + 4 i .. 16 l + 4 i + 3.
EDGEDEC_INLINE void mix_values(const Rows& values, size_t j, __mmask64 columns, __m512i* mixed) {
  __m512i row[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    const int8_t* at = values.first + (j + i) * values.stride;
    row[i] = j + i < values.count ? _mm512_maskz_loadu_epi8(columns, at) : _mm512_setzero_si512();
    __builtin_prefetch(at + kAheadBytes, 0, 3);
  }
  const __m512i a = _mm512_unpacklo_epi8(row[0], row[1]), b = _mm512_unpackhi_epi8(row[0], row[1]);
  const __m512i c = _mm512_unpacklo_epi8(row[2], row[3]), d = _mm512_unpackhi_epi8(row[2], row[3]);
  mixed[0] = _mm512_unpacklo_epi16(a, c), mixed[1] = _mm512_unpackhi_epi16(a, c);
  mixed[2] = _mm512_unpacklo_epi16(b, d), mixed[3] = _mm512_unpackhi_epi16(b, d);
}

// Adds four registers, whose columns are in the order of mix_values(), to sums of columns in order.
EDGEDEC_INLINE void add_columns(const __m512i* sum, size_t width, int32_t* sums) {
  const __m512i a = _mm512_shuffle_i32x4(sum[0], sum[1], 0x44), b = _mm512_shuffle_i32x4(sum[2], sum[3], 0x44);
  const __m512i c = _mm512_shuffle_i32x4(sum[0], sum[1], 0xee), d = _mm512_shuffle_i32x4(sum[2], sum[3], 0xee);
  const __m512i order[4] = {_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd),
                            _mm512_shuffle_i32x4(c, d, 0x88), _mm512_shuffle_i32x4(c, d, 0xdd)};
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i)
    if (16 * i < width) _mm512_storeu_si512(sums + 16 * i, _mm512_add_epi32(loaded(sums + 16 * i), order[i]));
}

template <int V>
EDGEDEC_INLINE void value_tile(const uint8_t* weights, const __m512i (*mixed)[4], size_t groups, size_t width, int32_t* sums) {
  __m512i sum[V][4];
#pragma GCC unroll 3
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sum[v][i] = _mm512_setzero_si512();
  for (size_t g = 0; g < groups; ++g)
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      int32_t four;
      __builtin_memcpy(&four, weights + static_cast<size_t>(v) * kMostRows + 4 * g, 4);
      const __m512i weight = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[v][i] = _mm512_dpbusd_epi32(sum[v][i], weight, mixed[g][i]);
    }
#pragma GCC unroll 3
  for (int v = 0; v < V; ++v) add_columns(sum[v], width, sums + static_cast<size_t>(v) * kMostWidth);
}

inline void vnni_values(const uint8_t* weights, size_t count, const Rows& values, size_t width, int32_t* sums) {
  __m512i mixed[kMostRows / 4][4];
  const __mmask64 columns = width == kMostWidth ? ~0ull : (1ull << width) - 1;
  const size_t groups = (values.count + 3) / 4;
  for (size_t g = 0; g < groups; ++g) mix_values(values, 4 * g, columns, mixed[g]);
  size_t v = 0;
  for (; v + 3 <= count; v += 3) value_tile<3>(weights + v * kMostRows, mixed, groups, width, sums + v * kMostWidth);
  if (count - v == 2) value_tile<2>(weights + v * kMostRows, mixed, groups, width, sums + v * kMostWidth);
  if (count - v == 1) value_tile<1>(weights + v * kMostRows, mixed, groups, width, sums + v * kMostWidth);
}

}  // namespace
}  // namespace edgedec::byte_products
