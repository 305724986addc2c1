// QuantLinear: y[m, n] = sum_k x[m, k] W[n, k], W quantised in groups, x quantised to int8 per group of 32.
//
// For output n, in ascending groups g of 32 inputs:
//   isum = sum of (q - offset) * xq          exact in int32 (with scales of halves: sc0 * dot0 + sc1 * dot1)
//          (NVFP4: fma(float(dot1), sc1, float(dot0) * sc0), of which only the sum rounds)
//   t    = float(isum) * scale               one rounding; scale (d, or d * sc) is exact in fp32
//   t    = fma(-min, float(sum of xq), t)    only in formats with minima (Q2_K: -dmin, and m0 * sum0 + m1 * sum1)
//   acc  = fma(t, xscale, acc)
//
// Float matrices (F16, BF16, F32): x is not quantised; in ascending inputs k
//   acc = fma(x[k], w[k], acc)               w widened to fp32, which is exact
//
// With terms = 2 (for queries, keys and values, where rounding x to 8 bits loses most accuracy) x is the sum of two
// quantisations: the second quantises the error of the first. y is the plain sum of the two results. Float matrices
// ignore the second term.
//
// The integers are exact in any order, so the float steps alone decide an output. They are the same in every row and
// for every number of tokens: rows agree bit for bit, and a token's output does not depend on other tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "packing/formats.h"

namespace edgedec {

// Activations of m tokens: as floats for float formats, and quantised for the others. k is padded with zeros to the
// longest record, 256. The quantised arrays are null when only float weights read them.
struct Acts {
  int m = 0, k = 0;
  const float* x = nullptr;       // [tokens][cols]
  const int8_t* q = nullptr;      // [m][k]
  const float* scale = nullptr;   // [m][k / 32]
  const int32_t* sum = nullptr;   // [m][k / 16] sums of q
  const float* total = nullptr;   // [m][k / 32] sums of q
};

static constexpr int padded_k(int k) { return (k + 255) / 256 * 256; }

namespace quant_linear {

// Quantises groups [first, last) of x[m][cols] into the arrays that Acts describes. Groups are counted over all rows,
// k / 32 in each. xscale = max|x| / 127, q = round_half_even(x * (127 / max|x|)). A group whose peak is below
// kLeastPeak becomes zeros; a group that holds a NaN or an infinity gets a NaN as its scale.
using QuantiseFn = void (*)(const float* x, int cols, int k, size_t first, size_t last, int8_t* q, float* scale,
                            int32_t* sum);

// Calls each(row, group of that row, index) for the groups [first, last), counted as in QuantiseFn.
template <class F>
static EDGEDEC_INLINE void for_groups(int k, size_t first, size_t last, const F& each) {
  const size_t per_row = static_cast<size_t>(k) / kGroup;
  size_t m = first / per_row, g = first % per_row;
  for (size_t at = first; at < last; ++at) {
    each(m, static_cast<int>(g), at);
    if (++g == per_row) g = 0, ++m;
  }
}

// Columns of tiles [tile0, tile1) for tokens [m0, m1): out[(m - m0) * ldo + (column - 16 * tile0)].
// Columns past w.rows are not written.
using TilesFn = void (*)(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo);

struct Row {
  const char* name;
  QuantiseFn quantise;
  TilesFn tiles[static_cast<int>(FormatId::kCount)];
};

// Tokens from which on rows may take two tiles at a time: avx512_pairs.h.
constexpr int kManyTokens = 24;

// Tiles that are read in turns where the CPU likes_streams(): tile_loop.h.
constexpr int kStreams = 4;

// Prefetches the weights that come kAhead bytes after groups g and g + 1: the hardware's prefetchers stop at the end of a
// 4 KiB page. Into the second-level cache: the first has too few requests to memory open at a time. Measured on Zen 4 with
// two threads, beside 4096 bytes ahead into the first level: one token 1.3 times as fast in Q4_K and Q6_K, four tokens 1.4
// (Q4_1, Q8_0), 1.5 (Q4_K) and 1.8 times (Q6_K). Records of 8 bits are read so quickly that 4 KiB ahead are better with
// one thread. A prefetch past the end of a mapping is harmless.
template <class F>
constexpr int kAhead = F::kBytes == Q8_0::kBytes ? 4096 : 6144;

EDGEDEC_INLINE void prefetch(const uint8_t* p) { __builtin_prefetch(p, 0, 2); }

template <class F>
static EDGEDEC_INLINE void prefetch_pair(const uint8_t* rec, int g) {
  constexpr int kGroups = F::kRecord / kGroup, kBytes = F::kBytes * 2 / kGroups;
  const uint8_t* p = rec + g * (F::kBytes / kGroups) + kAhead<F>;
  for (int i = 0; i < kBytes; i += 64) prefetch(p + i);
}

// The row of that name, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

}  // namespace quant_linear
}  // namespace edgedec
