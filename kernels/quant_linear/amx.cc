// AMX: sixteen tokens times sixteen columns in one instruction. The integers equal VNNI's and the float steps are
// VNNI's code, so the bits are the same. Below eight tokens a tile would be mostly empty, so VNNI runs.
#include "simd/amx.h"
#include "simd/vec16_avx512.h"
#include "quant_linear/avx512_impl.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::amx {
namespace {

constexpr int kMinRows = 8, kMaxRows = 16;
// Tiles: results lo and hi, activations and weights; with scales of halves, 16 inputs at a time.
#define C0 0
#define C1 1
#define A0 2
#define A1 3
#define B0 4
#define B1 5

template <class F>
TileConfig configuration(int n) {
  constexpr int inputs = kHalves<F> ? 16 : 32;
  TileConfig c;
  for (int t = C0; t <= A1; ++t) {
    c.rows[t] = static_cast<uint8_t>(n);
    c.column_bytes[t] = t < A0 ? 64 : inputs;
  }
  for (int t = B0; t <= B1; ++t) {
    c.rows[t] = inputs / 4;
    c.column_bytes[t] = 64;
  }
  return c;
}

// Raw dot products of one group for n tokens: lo[n][16], and hi[n][16] for the second half where it has its own scale.
template <class F, int ODD>
EDGEDEC_INLINE void group_dots(const uint8_t* rec, int group, const int8_t* q, size_t ldq, int32_t* lo, int32_t* hi) {
  alignas(64) uint8_t quants[kSteps * 64];
  for (int s = 0; s < kSteps; ++s) _mm512_storeu_si512(quants + 64 * s, (unpack<F, ODD>(rec, group, s)));
  EDGEDEC_TILE_ZERO(C0);
  EDGEDEC_TILE_LOAD(A0, q, ldq);
  EDGEDEC_TILE_LOAD(B0, quants, 64);
  EDGEDEC_TILE_DOT(C0, A0, B0);
  EDGEDEC_TILE_STORE(C0, lo, 64);
  if constexpr (kHalves<F>) {
    EDGEDEC_TILE_ZERO(C1);
    EDGEDEC_TILE_LOAD(A1, q + 16, ldq);
    EDGEDEC_TILE_LOAD(B1, quants + 256, 64);
    EDGEDEC_TILE_DOT(C1, A1, B1);
    EDGEDEC_TILE_STORE(C1, hi, 64);
  }
}

// Adds group g, of parity ODD, for n tokens.
template <class F, int ODD>
EDGEDEC_INLINE void add_group(const uint8_t* rec, int g, const Acts& x, int m0, int n, int index, __m512* acc) {
  alignas(64) int32_t lo[kMaxRows * kTile], hi[kMaxRows * kTile];
  group_dots<F, ODD>(rec, g, x.q + static_cast<size_t>(m0) * x.k + index * kGroup, x.k, lo, hi);
  const GroupScales scales = group_scales<F, ODD>(rec, g);
  for (int m = 0; m < n; ++m) {
    const size_t at = static_cast<size_t>(m0 + m) * (x.k / kGroup) + index;
    const int32_t* sums = x.sum + 2 * at;
    __m512 isum;
    if constexpr (kHalves<F>) {
      const __m512 first = first_half(_mm512_add_epi32(begin_sum<F>(sums[0]), load(lo + m * kTile)), scales);
      isum = both_halves(_mm512_add_epi32(begin_sum<F>(sums[1]), load(hi + m * kTile)), scales, first);
    } else {
      isum = _mm512_cvtepi32_ps(_mm512_add_epi32(begin_sum<F>(sums[0] + sums[1]), load(lo + m * kTile)));
    }
    acc[m] = step<F>(isum, scales, x, at, acc[m]);
  }
}

template <class F>
void tile_block(const Weight& w, const Acts& x, int tile, int m0, int n, float* out, size_t ldo) {
  constexpr int kGroups = F::kRecord / kGroup;
  __m512 acc[kMaxRows];
  for (int m = 0; m < n; ++m) acc[m] = _mm512_setzero_ps();
  const uint8_t* rec = w.data + w.tile_bytes() * tile;
  for (int r = 0; r < w.records(); ++r, rec += F::kBytes)
    for (int g = 0; g < kGroups; g += 2) {
      prefetch_pair<F>(rec, g);
      add_group<F, 0>(rec, g, x, m0, n, r * kGroups + g, acc);
      add_group<F, 1>(rec, g + 1, x, m0, n, r * kGroups + g + 1, acc);
    }
  for (int m = 0; m < n; ++m) store_columns(acc[m], out + m * ldo, w.rows - tile * kTile);
}

template <class F>
void amx_tiles(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (int m = m0; m < m1; m += kMaxRows) {
    const int n = m1 - m < kMaxRows ? m1 - m : kMaxRows;
    float* rows = out + static_cast<size_t>(m - m0) * ldo;
    if (n < kMinRows) {
      vnni_tiles<F>(w, x, m, m + n, tile0, tile1, rows, ldo);
      continue;
    }
    tile_configure(configuration<F>(n));
    for (int tile = tile0; tile < tile1; ++tile)
      tile_block<F>(w, x, tile, m, n, rows + (tile - tile0) * kTile, ldo);
    tile_release();
  }
}

}  // namespace

extern const Row row;
const Row row = {"amx",
                 quantise,
                 {
#define X(F) amx_tiles<F>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Avx512>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::amx
