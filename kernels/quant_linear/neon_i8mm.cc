// NEON with the matrix extension: unsigned quants times signed activations. usdot serves one token, usmmla (two columns
// times two tokens over eight inputs) several.
#include "simd/vec16_neon.h"
#include "quant_linear/float_impl.h"
#include "quant_linear/neon_impl.h"

namespace edgedec::quant_linear::neon_i8mm {
namespace {

constexpr int kPairs = kTile / 2;    // pairs of columns
constexpr int kEights = kGroup / 8;  // runs of eight inputs in a group

struct Usmmla {
  static constexpr bool kSigned = false;

  static EDGEDEC_INLINE int32x4_t dot(int32x4_t acc, uint8x16_t w, int8x16_t x, int lane) {
    switch (lane) {
      case 0: return vusdotq_laneq_s32(acc, w, x, 0);
      case 1: return vusdotq_laneq_s32(acc, w, x, 1);
      case 2: return vusdotq_laneq_s32(acc, w, x, 2);
      default: return vusdotq_laneq_s32(acc, w, x, 3);
    }
  }

  // Two columns' eight inputs side by side, out of two steps.
  template <class F, int ODD>
  static EDGEDEC_INLINE void unpack_pairs(const uint8_t* rec, int g, uint8x16_t (*w)[kPairs]) {
#pragma GCC unroll 16
    for (int i = 0; i < kEights * kParts; ++i) {
      const int eight = i / kParts, part = i % kParts;
      const uint32x4_t a = vreinterpretq_u32_u8(quants<F, Usmmla, ODD>(rec, g, 2 * eight, part));
      const uint32x4_t b = vreinterpretq_u32_u8(quants<F, Usmmla, ODD>(rec, g, 2 * eight + 1, part));
      w[eight][2 * part] = vreinterpretq_u8_u32(vzip1q_u32(a, b));
      w[eight][2 * part + 1] = vreinterpretq_u8_u32(vzip2q_u32(a, b));
    }
  }

  // T pairs of tokens, the first n of them wanted. usmmla sums two columns times two tokens: lanes (column, token) =
  // (0, 0), (0, 1), (1, 0), (1, 1).
  template <class F, int T>
  static EDGEDEC_INLINE void squares(const uint8x16_t (*w)[kPairs], const GroupScales& s, const Token* t, int n,
                                     ColumnsF* acc) {
    constexpr int eights = kEights / kSums<F>;
    int8x16_t x[kEights][T];
    int32x4_t begin[2][T];
#pragma GCC unroll 2
    for (int i = 0; i < T; ++i) {
      const Token &a = t[2 * i], &b = t[2 * i + 1];
      for (int e = 0; e < kEights; ++e) x[e][i] = vcombine_s8(vld1_s8(a.q + 8 * e), vld1_s8(b.q + 8 * e));
      for (int half = 0; half < kSums<F>; ++half) {
        const int32x2_t two = {start<F, Usmmla>(a, half), start<F, Usmmla>(b, half)};
        begin[half][i] = vcombine_s32(two, two);
      }
    }
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      int32x4_t sum[2][T][2];
#pragma GCC unroll 4
      for (int e = 0; e < kEights; ++e)
#pragma GCC unroll 2
        for (int i = 0; i < T; ++i)
#pragma GCC unroll 2
          for (int pair = 0; pair < 2; ++pair) {
            int32x4_t& square = sum[e / eights][i][pair];
            if (e % eights == 0) square = begin[e / eights][i];
            square = vusmmlaq_s32(square, w[e][2 * part + pair], x[e][i]);
          }
#pragma GCC unroll 4
      for (int r = 0; r < 2 * T; ++r) {
        if (r >= n) break;
        const auto &lo = sum[0][r / 2], &hi = sum[kSums<F> - 1][r / 2];
        step<F>(part, r % 2 ? vuzp2q_s32(lo[0], lo[1]) : vuzp1q_s32(lo[0], lo[1]),
                r % 2 ? vuzp2q_s32(hi[0], hi[1]) : vuzp1q_s32(hi[0], hi[1]), s, t[r], acc[r]);
      }
    }
  }

  // Unpacked once into the first-level cache; four tokens share each load of quants. A token without a partner is
  // paired with itself.
  template <class F, int ODD>
  static EDGEDEC_INLINE void many(const uint8_t* rec, int g, const GroupScales& s, const Acts& x, int m0, int n,
                                  int index, ColumnsF* acc) {
    uint8x16_t w[kEights][kPairs];
    unpack_pairs<F, ODD>(rec, g, w);
    Token t[4];
    for (int m = 0; m < n; m += 4) {
      const int here = n - m < 4 ? n - m : 4;
      for (int r = 0; r < 4; ++r) t[r] = token(x, m0 + m + (r < here ? r : here - 1), index);
      here > 2 ? squares<F, 2>(w, s, t, here, acc + m) : squares<F, 1>(w, s, t, here, acc + m);
    }
  }
};

}  // namespace

extern const Row row;
const Row row = {"neon_i8mm",
                 quantise,
                 {
#define X(F) tiles<F, Usmmla>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Neon>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::neon_i8mm
