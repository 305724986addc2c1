// The loops around a row's arithmetic, shared by the 256-bit and the NEON rows.
#pragma once

#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {
namespace {

// Computes one tile for n tokens from m0. C handles sixteen columns of one token:
//   C::Sums                     accumulators, with C::zero() and C::store(sums, out, columns)
//   C::kFew                     the most tokens, at least one, for which the number is a template argument
//   C::kRowsAtOnce              the most tokens for which a tile streams by once; their float sums fit the first-level cache
//   C::group<F, ODD, N>(...)    adds group g of a record; ODD: its parity. N: the number of tokens up to kFew, so that
//                               accumulators stay in registers, else 0
//   C::kUnpacks                 whether more than kFew tokens go by C::pair<F>(...) instead, two groups at a time
template <class F, class C, int N>
void tile_rows(const Weight& w, const Acts& x, int tile, int m0, int n, float* out, size_t ldo) {
  constexpr int kGroups = F::kRecord / kGroup;
  const int count = N ? N : n;
  typename C::Sums acc[N ? N : C::kRowsAtOnce];
  for (int m = 0; m < count; ++m) acc[m] = C::zero();
  const uint8_t* rec = w.data + w.tile_bytes() * tile;
  const int records = w.records();
  for (int r = 0; r < records; ++r, rec += F::kBytes)
    for (int g = 0; g < kGroups; g += 2) {
      prefetch_pair<F>(rec, g);
      if constexpr (N == 0 && C::kUnpacks) {
        C::template pair<F>(rec, g, x, m0, n, r * kGroups + g, acc);
      } else {
        C::template group<F, 0, N>(rec, g, x, m0, n, r * kGroups + g, acc);
        C::template group<F, 1, N>(rec, g + 1, x, m0, n, r * kGroups + g + 1, acc);
      }
    }
  const int columns = w.rows - tile * kTile;
  for (int m = 0; m < count; ++m) C::store(acc[m], out + m * ldo, columns);
}

template <class F, class C, int N = C::kFew>
void tile_rows_of(const Weight& w, const Acts& x, int tile, int m0, int n, float* out, size_t ldo) {
  if constexpr (N == 0 && C::kFew < C::kRowsAtOnce)
    tile_rows<F, C, 0>(w, x, tile, m0, n, out, ldo);
  else if (n == N)
    tile_rows<F, C, N>(w, x, tile, m0, n, out, ldo);
  else if constexpr (N > 0)
    tile_rows_of<F, C, N - 1>(w, x, tile, m0, n, out, ldo);
}

template <class F, class C>
void tile_loop(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (int tile = tile0; tile < tile1; ++tile)
    for (int m = m0, n; m < m1; m += n) {
      const int left = m1 - m, parts = (left + C::kRowsAtOnce - 1) / C::kRowsAtOnce;
      n = (left + parts - 1) / parts;  // parts of even size: a lone last token would cost as much as four
      float* at = out + static_cast<size_t>(m - m0) * ldo + (tile - tile0) * kTile;
      tile_rows_of<F, C>(w, x, tile, m, n, at, ldo);
    }
}

}  // namespace
}  // namespace edgedec::quant_linear
