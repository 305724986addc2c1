// Byte products of 256-bit registers.
//
// Eight keys are turned so that a register has four elements of each of them, which are multiplied with four elements of a
// query. Four values are mixed so that a register has four of each column. P is how four products are added:
//   key(bytes)            a turned key as add_scores() takes it
//   kRaised               what a sum of scores begins with, times the sum of the query
//   add_scores(sum, key, query), add_values(sum, weights, values)
#pragma once

#include <immintrin.h>

#include "byte_products/byte_products.h"
#include "simd/inline.h"

namespace edgedec::byte_products {
namespace {

constexpr size_t kAheadBytes = 8192;  // of prefetches: the hardware's stop at the end of a page

EDGEDEC_INLINE __m128i loaded16(const int8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

EDGEDEC_INLINE __m256i four_bytes(const void* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}

// Elements c .. c + 15 of eight rows: turned[i][half] has elements c + 4 i .. c + 4 i + 3 of each.
template <class P>
EDGEDEC_INLINE void turn_keys(const int8_t* const* rows, size_t c, __m256i (*turned)[2], size_t half) {
  const auto pair = [&](int i) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(loaded16(rows[i] + c)), loaded16(rows[i + 4] + c), 1);
  };
  const __m256i a = pair(0), b = pair(1), d = pair(2), e = pair(3);
  const __m256i ab = _mm256_unpacklo_epi32(a, b), de = _mm256_unpacklo_epi32(d, e);
  const __m256i AB = _mm256_unpackhi_epi32(a, b), DE = _mm256_unpackhi_epi32(d, e);
  turned[0][half] = P::key(_mm256_unpacklo_epi64(ab, de)), turned[1][half] = P::key(_mm256_unpackhi_epi64(ab, de));
  turned[2][half] = P::key(_mm256_unpacklo_epi64(AB, DE)), turned[3][half] = P::key(_mm256_unpackhi_epi64(AB, DE));
}

// Sums of V queries and sixteen turned keys.
template <class P, int STEPS, int V>
EDGEDEC_INLINE void score_tile(const Vector* vectors, const __m256i (*turned)[2], int32_t* sums, size_t stride) {
  __m256i sum[V][2];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) sum[v][0] = sum[v][1] = _mm256_set1_epi32(P::kRaised * vectors[v].sum);
#pragma GCC unroll 8
  for (int s = 0; s < STEPS; ++s)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const __m256i query = four_bytes(vectors[v].bytes + 4 * s);
      sum[v][0] = P::add_scores(sum[v][0], turned[s][0], query), sum[v][1] = P::add_scores(sum[v][1], turned[s][1], query);
    }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    auto* to = reinterpret_cast<__m256i*>(sums + static_cast<size_t>(v) * stride);
    _mm256_storeu_si256(to, sum[v][0]), _mm256_storeu_si256(to + 1, sum[v][1]);
  }
}

template <class P, int STEPS>
EDGEDEC_INLINE void score_tiles(const Vector* vectors, size_t count, const Rows& keys, int32_t* sums, size_t stride) {
  for (size_t j = 0; j < keys.count; j += 16) {
    const int8_t* rows[16];
    for (size_t i = 0; i < 16; ++i) {
      rows[i] = keys.first + (j + i < keys.count ? j + i : keys.count - 1) * keys.stride;
      __builtin_prefetch(rows[i] + kAheadBytes, 0, 3);
    }
    __m256i turned[STEPS][2];
    for (size_t s = 0; s < STEPS; s += 4)
      for (size_t half = 0; half < 2; ++half) turn_keys<P>(rows + 8 * half, 4 * s, turned + s, half);
    size_t v = 0;
    for (; v + 4 <= count; v += 4) score_tile<P, STEPS, 4>(vectors + v, turned, sums + v * stride + j, stride);
    if (count - v == 3) score_tile<P, STEPS, 3>(vectors + v, turned, sums + v * stride + j, stride);
    if (count - v == 2) score_tile<P, STEPS, 2>(vectors + v, turned, sums + v * stride + j, stride);
    if (count - v == 1) score_tile<P, STEPS, 1>(vectors + v, turned, sums + v * stride + j, stride);
  }
}

template <class P>
void scores(const Vector* vectors, size_t count, const Rows& keys, size_t width, int32_t* sums, size_t stride) {
  width == kKeyWidth ? score_tiles<P, 8>(vectors, count, keys, sums, stride) : score_tiles<P, 4>(vectors, count, keys, sums, stride);
}

// Four values of 16 or 32 columns, mixed. Lane l of mixed[i] has columns 16 l + 4 i .. 16 l + 4 i + 3.
EDGEDEC_INLINE void mix_values(const Rows& values, size_t j, size_t first, size_t columns, __m256i* mixed) {
  __m256i row[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    const int8_t* at = values.first + (j + i) * values.stride + first;
    if (j + i >= values.count)
      row[i] = _mm256_setzero_si256();
    else if (columns >= 32)
      row[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    else
      row[i] = _mm256_inserti128_si256(_mm256_setzero_si256(), loaded16(at), 0);
    __builtin_prefetch(at + kAheadBytes, 0, 3);
  }
  const __m256i a = _mm256_unpacklo_epi8(row[0], row[1]), b = _mm256_unpackhi_epi8(row[0], row[1]);
  const __m256i c = _mm256_unpacklo_epi8(row[2], row[3]), d = _mm256_unpackhi_epi8(row[2], row[3]);
  mixed[0] = _mm256_unpacklo_epi16(a, c), mixed[1] = _mm256_unpackhi_epi16(a, c);
  mixed[2] = _mm256_unpacklo_epi16(b, d), mixed[3] = _mm256_unpackhi_epi16(b, d);
}

EDGEDEC_INLINE void add_eight(__m256i sum, int32_t* sums) {
  auto* to = reinterpret_cast<__m256i*>(sums);
  _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sum));
}

// Adds four registers, whose columns are in the order of mix_values(), to sums of columns in order.
EDGEDEC_INLINE void add_columns(const __m256i* sum, size_t columns, int32_t* sums) {
  add_eight(_mm256_permute2x128_si256(sum[0], sum[1], 0x20), sums);
  add_eight(_mm256_permute2x128_si256(sum[2], sum[3], 0x20), sums + 8);
  if (columns < 32) return;
  add_eight(_mm256_permute2x128_si256(sum[0], sum[1], 0x31), sums + 16);
  add_eight(_mm256_permute2x128_si256(sum[2], sum[3], 0x31), sums + 24);
}

template <class P, int V>
EDGEDEC_INLINE void value_tile(const uint8_t* weights, const __m256i (*mixed)[4], size_t groups, size_t columns, int32_t* sums) {
  __m256i sum[V][4];
#pragma GCC unroll 3
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sum[v][i] = _mm256_setzero_si256();
  for (size_t g = 0; g < groups; ++g)
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      const __m256i weight = four_bytes(weights + static_cast<size_t>(v) * kMostRows + 4 * g);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[v][i] = P::add_values(sum[v][i], weight, mixed[g][i]);
    }
#pragma GCC unroll 3
  for (int v = 0; v < V; ++v) add_columns(sum[v], columns, sums + static_cast<size_t>(v) * kMostWidth);
}

template <class P>
void values(const uint8_t* weights, size_t count, const Rows& rows, size_t width, int32_t* sums) {
  __m256i mixed[kMostRows / 4][4];
  const size_t groups = (rows.count + 3) / 4;
  for (size_t first = 0; first < width; first += 32) {
    const size_t columns = width - first;
    for (size_t g = 0; g < groups; ++g) mix_values(rows, 4 * g, first, columns, mixed[g]);
    size_t v = 0;
    for (; v + 3 <= count; v += 3)
      value_tile<P, 3>(weights + v * kMostRows, mixed, groups, columns, sums + v * kMostWidth + first);
    if (count - v == 2) value_tile<P, 2>(weights + v * kMostRows, mixed, groups, columns, sums + v * kMostWidth + first);
    if (count - v == 1) value_tile<P, 1>(weights + v * kMostRows, mixed, groups, columns, sums + v * kMostWidth + first);
  }
}

}  // namespace
}  // namespace edgedec::byte_products
