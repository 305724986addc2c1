// Byte products of 128-bit registers, which have four bytes of each of four keys or columns.
//
// Four keys are turned so that a register has four elements of each of them, which are multiplied with four elements of a
// query. Four values are mixed so that a register has four of each of four columns. P has the instructions:
//   Bytes, load(p), zero()          sixteen bytes
//   low8(a, b), high8(a, b)         bytes of both in turns, of their first halves or of their last; low16() and so on alike
//   Key(bytes), Value(bytes)        a turned key, a mixed value, as they are multiplied
//   Sum, start(), store(p, sum), add(p, sum)     four sums
//   Fours(p)                        sixteen bytes of a query or of weights; One(p) only four
//   add_key(sum, key, fours, i), add_value(...)  with the i-th four bytes
//   kSums                           sums that registers have room for
#pragma once

#include "byte_products/byte_products.h"
#include "simd/inline.h"

namespace edgedec::byte_products {
namespace {

constexpr int kParts = 4;  // registers of sixteen keys or columns

// Parts that are summed at once for V queries or rows of weights.
template <class P, int V>
constexpr int kAtOnce = V * kParts <= P::kSums ? kParts : 2;

// Elements c .. c + 15 of four rows: turned[i] has elements c + 4 i .. c + 4 i + 3 of each.
template <class P>
EDGEDEC_INLINE void turn_keys(const int8_t* const* rows, size_t c, typename P::Key (*turned)[kParts], int part) {
  const auto a = P::load(rows[0] + c), b = P::load(rows[1] + c), d = P::load(rows[2] + c), e = P::load(rows[3] + c);
  const auto ad = P::low32(a, d), be = P::low32(b, e), AD = P::high32(a, d), BE = P::high32(b, e);
  turned[0][part] = typename P::Key(P::low32(ad, be)), turned[1][part] = typename P::Key(P::high32(ad, be));
  turned[2][part] = typename P::Key(P::low32(AD, BE)), turned[3][part] = typename P::Key(P::high32(AD, BE));
}

// Sums of V queries and sixteen turned keys.
template <class P, int STEPS, int V>
EDGEDEC_INLINE void score_tile(const Vector* vectors, const typename P::Key (*turned)[kParts], int32_t* sums, size_t stride) {
  constexpr int N = kAtOnce<P, V>;
#pragma GCC unroll 2
  for (int part = 0; part < kParts; part += N) {
    typename P::Sum sum[V][N];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) sum[v][i] = P::start();
#pragma GCC unroll 8
    for (int s = 0; s < STEPS; ++s)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const typename P::Fours query(vectors[v].bytes + s / 4 * 16);
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) sum[v][i] = P::add_key(sum[v][i], turned[s][part + i], query, s % 4);
      }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) P::store(sums + static_cast<size_t>(v) * stride + 4 * (part + i), sum[v][i]);
  }
}

// Rows of sixteen keys from the j-th on; the last one in place of those that are not there.
EDGEDEC_INLINE void rows_of(const Rows& keys, size_t j, const int8_t** rows) {
  for (size_t i = 0; i < 16; ++i) rows[i] = keys.first + (j + i < keys.count ? j + i : keys.count - 1) * keys.stride;
}

template <class P, int STEPS>
EDGEDEC_INLINE void score_tiles(const Vector* vectors, size_t count, const Rows& keys, int32_t* sums, size_t stride) {
  for (size_t j = 0; j < keys.count; j += 16) {
    const int8_t* rows[16];
    rows_of(keys, j, rows);
    typename P::Key turned[STEPS][kParts];
    for (int s = 0; s < STEPS; s += 4)
      for (int part = 0; part < kParts; ++part) turn_keys<P>(rows + 4 * part, 4 * s, turned + s, part);
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

// Sixteen columns of four values, mixed. mixed[i] has columns 4 i .. 4 i + 3.
template <class P>
EDGEDEC_INLINE void mix_values(const Rows& values, size_t j, size_t first, typename P::Value* mixed) {
  typename P::Bytes row[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i)
    row[i] = j + i < values.count ? P::load(values.first + (j + i) * values.stride + first) : P::zero();
  const auto ab = P::low8(row[0], row[1]), AB = P::high8(row[0], row[1]);
  const auto de = P::low8(row[2], row[3]), DE = P::high8(row[2], row[3]);
  mixed[0] = typename P::Value(P::low16(ab, de)), mixed[1] = typename P::Value(P::high16(ab, de));
  mixed[2] = typename P::Value(P::low16(AB, DE)), mixed[3] = typename P::Value(P::high16(AB, DE));
}

// Adds the sums of V rows of weights and sixteen mixed columns.
template <class P, int V>
EDGEDEC_INLINE void value_tile(const uint8_t* weights, const typename P::Value (*mixed)[kParts], size_t groups, int32_t* sums) {
  constexpr int N = kAtOnce<P, V>;
  const auto row = [=](int v, size_t g) { return reinterpret_cast<const int8_t*>(weights) + static_cast<size_t>(v) * kMostRows + 4 * g; };
#pragma GCC unroll 2
  for (int part = 0; part < kParts; part += N) {
    typename P::Sum sum[V][N];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) sum[v][i] = P::start();
    size_t g = 0;
    for (; g + 4 <= groups; g += 4)
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          const typename P::Fours weight(row(v, g));
#pragma GCC unroll 4
          for (int i = 0; i < N; ++i) sum[v][i] = P::add_value(sum[v][i], mixed[g + s][part + i], weight, s);
        }
    for (; g < groups; ++g)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const typename P::One weight(row(v, g));
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) sum[v][i] = P::add_value(sum[v][i], mixed[g][part + i], weight, 0);
      }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) P::add(sums + static_cast<size_t>(v) * kMostWidth + 4 * (part + i), sum[v][i]);
  }
}

template <class P>
void values(const uint8_t* weights, size_t count, const Rows& rows, size_t width, int32_t* sums) {
  typename P::Value mixed[kMostRows / 4][kParts];
  const size_t groups = (rows.count + 3) / 4;
  for (size_t first = 0; first < width; first += 16) {
    for (size_t g = 0; g < groups; ++g) mix_values<P>(rows, 4 * g, first, mixed[g]);
    size_t v = 0;
    for (; v + 4 <= count; v += 4) value_tile<P, 4>(weights + v * kMostRows, mixed, groups, sums + v * kMostWidth + first);
    if (count - v == 3) value_tile<P, 3>(weights + v * kMostRows, mixed, groups, sums + v * kMostWidth + first);
    if (count - v == 2) value_tile<P, 2>(weights + v * kMostRows, mixed, groups, sums + v * kMostWidth + first);
    if (count - v == 1) value_tile<P, 1>(weights + v * kMostRows, mixed, groups, sums + v * kMostWidth + first);
  }
}

}  // namespace
}  // namespace edgedec::byte_products
