// AMX: sixteen rows of activations times sixteen columns in one instruction. The integers equal VNNI's and the float steps
// are VNNI's code, so the bits are the same. For few tokens VNNI runs: a tile would be mostly empty.
//
// A tile register goes to memory before its numbers can be converted, and neither way between the two forwards what was
// just written. So three steps overlap: quants of one pair of groups are unpacked, while the pair before is multiplied,
// and floats are added for the one before that. A pair here is one of each of the tiles that are read in turns.
#include "simd/amx.h"
#include "simd/vec16_avx512.h"
#include "quant_linear/avx512_impl.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::amx {
namespace {

constexpr int kMinTokens = 8, kMaxTokens = 16;

// A part is the inputs of a pair of groups that share a scale: a group, or half of one.
template <class F>
constexpr int kParts = kHalves<F> ? 4 : 2;
template <class F>
constexpr int kPartBytes = 2 * kGroup / kParts<F>;

// What one instruction multiplies: SIDE parts side by side. Row t * n + m of its activations holds part t of token m in its
// place, and zeros elsewhere; so the same row of results is that part's. A tile takes as long to store with few rows as
// with sixteen.
template <class F, int SIDE>
struct Buffers {
  static constexpr int kDots = kParts<F> / SIDE, kBytes = SIDE * kPartBytes<F>;
  using Dots = int32_t[kDots][16 * kTile];

  alignas(64) int8_t tokens[kDots][16 * kBytes] = {};
  alignas(64) int8_t quants[kStreams][2 * kGroup * kTile];
  alignas(64) Dots dots[kStreams];
  alignas(64) float acc[kStreams][kMaxTokens * kTile] = {};

  // Copies the two groups from q on of n tokens.
  EDGEDEC_INLINE void set_tokens(const int8_t* q, size_t ldq, int n) {
    for (int m = 0; m < n; ++m, q += ldq)
      for (int part = 0; part < kParts<F>; ++part) {
        const int t = part % SIDE;
        std::memcpy(tokens[part / SIDE] + (t * n + m) * kBytes + t * kPartBytes<F>, q + part * kPartBytes<F>,
                    kPartBytes<F>);
      }
  }
};

// Tile registers: two of activations, two of weights, up to four of results.
template <class F, int SIDE>
TileConfig configuration(int n) {
  constexpr int bytes = Buffers<F, SIDE>::kBytes;
  TileConfig c;
  for (int t = 0; t < 8; ++t) {
    const bool weights = t == 2 || t == 3;
    c.rows[t] = static_cast<uint8_t>(weights ? bytes / 4 : n * SIDE);
    c.column_bytes[t] = t < 2 ? bytes : 64;
  }
  return c;
}

// Quants of groups g and g + 1, signed.
template <class F>
EDGEDEC_INLINE void unpack_pair(const uint8_t* rec, int g, int8_t* to) {
  const __m512i offset = _mm512_set1_epi8(static_cast<int8_t>(F::kOffset));
  const auto put = [&](int s, __m512i quants) {
    if constexpr (F::kOffset == 128) quants = _mm512_xor_si512(quants, offset);  // a difference of signed bytes overflows
    else if constexpr (F::kOffset != 0) quants = _mm512_sub_epi8(quants, offset);
    _mm512_store_si512(to + s * 64, quants);
  };
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s) {
    put(s, unpack<F, 0>(rec, g, s));
    put(kSteps + s, unpack<F, 1>(rec, g + 1, s));
  }
}

// Stores the results of dot D of the tile before and begins the same of the next one. TOKENS, QUANTS, RESULTS: registers.
#define EDGEDEC_DOT(D, TOKENS, QUANTS, RESULTS)                                                          \
  if constexpr (B::kDots > D) {                                                                          \
    EDGEDEC_TILE_STORE(RESULTS, before[D], 64);                                                          \
    if (next) {                                                                                          \
      if (B::kDots > 2 || fresh) EDGEDEC_TILE_LOAD(TOKENS, b.tokens[D], B::kBytes);                      \
      EDGEDEC_TILE_LOAD(QUANTS, next + D * B::kBytes * kTile, 64);                                       \
      EDGEDEC_TILE_ZERO(RESULTS);                                                                        \
      EDGEDEC_TILE_DOT(RESULTS, TOKENS, QUANTS);                                                         \
    }                                                                                                    \
  }

// fresh: the activations differ from the last time. next: nullptr after the last pair.
template <class B>
EDGEDEC_INLINE void multiply(const B& b, bool fresh, const int8_t* next, typename B::Dots& before) {
  EDGEDEC_DOT(0, 0, 2, 4)
  EDGEDEC_DOT(1, 1, 3, 5)
  EDGEDEC_DOT(2, 0, 2, 6)
  EDGEDEC_DOT(3, 1, 3, 7)
}
#undef EDGEDEC_DOT

// The exact sum of a group's products, from those of its first part and of its last.
template <class F>
EDGEDEC_INLINE __m512 sum_of(const int32_t* first, const int32_t* last, const GroupScales& s) {
  if constexpr (kHalves<F>) return both_halves(load(last), s, first_half(load(first), s));
  return _mm512_cvtepi32_ps(load(first));
}

// Adds groups g and g + 1 of one tile for n tokens from m0.
template <class F, int SIDE>
EDGEDEC_INLINE void add_floats(const uint8_t* rec, int g, const Acts& x, int m0, int n, int index,
                               const typename Buffers<F, SIDE>::Dots& dots, float* acc) {
  constexpr int kLast = kParts<F> / 2;
  const GroupScales even = group_scales<F, 0>(rec, g), odd = group_scales<F, 1>(rec, g + 1);
  const int32_t* part[kParts<F>];
  for (int p = 0; p < kParts<F>; ++p) part[p] = dots[p / SIDE] + p % SIDE * n * kTile;
  size_t at = static_cast<size_t>(m0) * (x.k / kGroup) + index;
#pragma GCC unroll 4
  for (int m = 0; m < n * kTile; m += kTile, at += x.k / kGroup) {
    __m512 a = _mm512_load_ps(acc + m);
    a = step<F>(sum_of<F>(part[0] + m, part[kLast - 1] + m, even), even, x, at, a);
    a = step<F>(sum_of<F>(part[kLast] + m, part[2 * kLast - 1] + m, odd), odd, x, at + 1, a);
    _mm512_store_ps(acc + m, a);
  }
}

// Computes tiles [tile, tile + tiles), at least two, for n tokens from m0.
template <class F, int SIDE>
void block(const Weight& w, const Acts& x, int tile, int tiles, int m0, int n, float* out, size_t ldo) {
  constexpr int kGroups = F::kRecord / kGroup;
  Buffers<F, SIDE> b;
  const Ahead<F> ahead(w, tile, tiles);
  const uint8_t *rec = w.data + ahead.tile * tile, *rec_before = rec;
  const int groups = w.records() * kGroups;
  const int8_t* q = x.q + static_cast<size_t>(m0) * x.k;
  for (int i = 0, g = 0, g_before = 0; i <= groups; i += 2) {
    const bool more = i < groups;
    for (int s = 0; s < tiles; ++s) {
      if (more) {
        ahead(rec + g / 2 * ahead.kPair, s);
        unpack_pair<F>(rec + s * ahead.tile, g, b.quants[s]);
      }
      // The tile before, and for its results the one before that. After the last pair two tiles are left to do.
      const int last = s ? s - 1 : tiles - 1;
      if (more || s < 2)
        multiply(b, s == 1, more || s == 0 ? b.quants[last] : nullptr, b.dots[last ? last - 1 : tiles - 1]);
      if (more && s == 0) b.set_tokens(q + i * kGroup, x.k, n);
      if (i > 0)
        add_floats<F, SIDE>(rec_before + s * ahead.tile, g_before, x, m0, n, i - 2, b.dots[s], b.acc[s]);
    }
    rec_before = rec, g_before = g;
    if ((g += 2) == kGroups) g = 0, rec += F::kBytes;
  }
  for (int s = 0; s < tiles; ++s)
    for (int m = 0; m < n; ++m)
      store_columns(_mm512_load_ps(b.acc[s] + m * kTile), out + m * ldo + s * kTile, w.rows - (tile + s) * kTile);
}

template <class F, int SIDE>
void tiles_of(const Weight& w, const Acts& x, int m0, int n, int tile0, int tile1, float* out, size_t ldo) {
  int tile = tile0;
  tile_configure(configuration<F, SIDE>(n));
  for (int tiles; tile1 - tile > 1; tile += tiles) {
    tiles = even_part(tile1 - tile, kStreams);
    block<F, SIDE>(w, x, tile, tiles, m0, n, out + (tile - tile0) * kTile, ldo);
  }
  tile_release();
  if (tile < tile1) vnni_tiles<F>(w, x, m0, m0 + n, tile, tile1, out + (tile - tile0) * kTile, ldo);
}

template <class F>
void amx_tiles(const Weight& w, const Acts& x, int m0, int m1, int tile0, int tile1, float* out, size_t ldo) {
  for (int m = m0, n; m < m1; m += n) {
    n = even_part(m1 - m, kMaxTokens);
    float* rows = out + static_cast<size_t>(m - m0) * ldo;
    if (n < kMinTokens)
      vnni_tiles<F>(w, x, m, m + n, tile0, tile1, rows, ldo);
    else if (n <= kMaxTokens / 2)
      tiles_of<F, 2>(w, x, m, n, tile0, tile1, rows, ldo);
    else
      tiles_of<F, 1>(w, x, m, n, tile0, tile1, rows, ldo);
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
