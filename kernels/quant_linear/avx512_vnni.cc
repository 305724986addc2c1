// AVX-512 VNNI: vpdpbusd on 512 bits.
#include "quant_linear/avx512_impl.h"

namespace edgedec::quant_linear::avx512_vnni {

extern const Row row;
const Row row = {"avx512_vnni",
                 quantise,
                 {
#define X(F) vnni_tiles<F>,
                     EDGEDEC_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::avx512_vnni
