// NEON with the dot product extension: sdot, signed bytes times signed bytes. Quants below 8 bits need no conversion.
#include "simd/vec16_neon.h"
#include "quant_linear/float_impl.h"
#include "quant_linear/neon_impl.h"

namespace edgedec::quant_linear::neon_dotprod {
namespace {

struct Sdot {
  static constexpr bool kSigned = true;

  // The lane is part of the instruction. The switch costs nothing: its value is constant once the loop is unrolled.
  static EDGEDEC_INLINE int32x4_t dot(int32x4_t acc, uint8x16_t quants, int8x16_t x, int lane) {
    const int8x16_t w = vreinterpretq_s8_u8(quants);
    switch (lane) {
      case 0: return vdotq_laneq_s32(acc, w, x, 0);
      case 1: return vdotq_laneq_s32(acc, w, x, 1);
      case 2: return vdotq_laneq_s32(acc, w, x, 2);
      default: return vdotq_laneq_s32(acc, w, x, 3);
    }
  }

  template <class F, int R, class W>
  static EDGEDEC_INLINE void tokens(const W& w, const GroupScales& s, const Acts& x, int m, int index, ColumnsF* acc) {
    Token t[R];
    for (int r = 0; r < R; ++r) t[r] = token(x, m + r, index);
    group_dots<F, Sdot, R>(w, s, t, acc);
  }

  // Unpacked once into the first-level cache; four tokens share each load of quants.
  template <class F, int ODD>
  static EDGEDEC_INLINE void many(const uint8_t* rec, int g, const GroupScales& s, const Acts& x, int m0, int n,
                                  int index, ColumnsF* acc) {
    uint8x16_t buffer[kSteps * kParts];
#pragma GCC unroll 32
    for (int i = 0; i < kSteps * kParts; ++i) buffer[i] = quants<F, Sdot, ODD>(rec, g, i / kParts, i % kParts);
    const auto w = [&](int i, int part) { return buffer[i * kParts + part]; };
    int m = 0;
    for (; m + 4 <= n; m += 4) tokens<F, 4>(w, s, x, m0 + m, index, acc + m);
    for (; m < n; ++m) tokens<F, 1>(w, s, x, m0 + m, index, acc + m);
  }
};

}  // namespace

extern const Row row;
const Row row = {"neon_dotprod",
                 quantise,
                 {
#define X(F) tiles<F, Sdot>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Neon>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::neon_dotprod
