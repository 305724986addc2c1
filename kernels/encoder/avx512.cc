#include "simd/vec16_avx512.h"
#include "encoder/impl.h"

namespace edgedec::encoder::avx512 {

extern const Row row;
const Row row = make_row<Vec16Avx512>("avx512");

}  // namespace edgedec::encoder::avx512
