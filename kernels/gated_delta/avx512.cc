#include "simd/vec16_avx512.h"
#include "gated_delta/impl.h"

namespace edgedec::gated_delta::avx512 {

extern const Row row;
const Row row = make_row<Vec16Avx512>("avx512");

}  // namespace edgedec::gated_delta::avx512
