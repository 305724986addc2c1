#include "simd/vec16_avx512.h"
#include "vector_math/impl.h"

namespace edgedec::vector_math::avx512 {

extern const Row row;
const Row row = make_row<Vec16Avx512>("avx512");

}  // namespace edgedec::vector_math::avx512
