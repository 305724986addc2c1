// AVX-VNNI: vpdpbusd on 256 bits, unsigned quants times signed activations straight into 32 bits.
#include "quant_linear/avx2_impl.h"

namespace edgedec::quant_linear::avx_vnni {
namespace {

struct Vnni {
  static constexpr bool kSignedBytes = false;

  template <class F, int STEPS>
  static EDGEDEC_INLINE Pair dot(const Pair* w, const int8_t* x) {
    Pair total = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int s = 0; s < STEPS; ++s) {
      const __m256i v = broadcast4(x, s);
      total = {_mm256_dpbusd_avx_epi32(total.a, w[s].a, v), _mm256_dpbusd_avx_epi32(total.b, w[s].b, v)};
    }
    return total;
  }
};

}  // namespace

extern const Row row;
const Row row = {"avx_vnni",
                 quantise,
                 {
#define X(F) tiles<F, Vnni>,
                     EDGEDEC_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::avx_vnni
