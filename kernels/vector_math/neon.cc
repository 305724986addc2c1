#include "simd/vec16_neon.h"
#include "vector_math/impl.h"

namespace edgedec::vector_math::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::vector_math::neon
