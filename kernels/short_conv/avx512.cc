#include "simd/vec16_avx512.h"
#include "short_conv/impl.h"

namespace edgedec::short_conv::avx512 {

extern const Row row;
const Row row = make_row<Vec16Avx512>("avx512");

}  // namespace edgedec::short_conv::avx512
