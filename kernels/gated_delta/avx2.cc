#include "simd/vec16_avx2.h"
#include "gated_delta/impl.h"

namespace edgedec::gated_delta::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::gated_delta::avx2
