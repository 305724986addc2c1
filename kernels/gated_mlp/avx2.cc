#include "simd/vec16_avx2.h"
#include "gated_mlp/impl.h"

namespace edgedec::gated_mlp::avx2 {

extern const Row row;
const Row row = {"avx2", activate_rows<Vec16Avx2>};

}  // namespace edgedec::gated_mlp::avx2
