#include "simd/vec16_avx2.h"
#include "vector_math/impl.h"

namespace edgedec::vector_math::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::vector_math::avx2
