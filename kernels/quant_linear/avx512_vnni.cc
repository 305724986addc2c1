// AVX-512 VNNI: vpdpbusd on 512 bits.
#include "simd/vec16_avx512.h"
#include "quant_linear/avx512_pairs.h"
#include "quant_linear/float_impl.h"

namespace edgedec::quant_linear::avx512_vnni {

extern const Row row;
const Row row = {"avx512_vnni",
                 quantise,
                 {
#define X(F) pairs_or_few<F>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Avx512>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::avx512_vnni
