#include "simd/vec16_avx512.h"
#include "gated_mlp/impl.h"

namespace edgedec::gated_mlp::avx512 {

extern const Row row;
const Row row = {"avx512", activate_rows<Vec16Avx512>};

}  // namespace edgedec::gated_mlp::avx512
