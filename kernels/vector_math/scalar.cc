#include "simd/vec16.h"
#include "vector_math/impl.h"

namespace edgedec::vector_math::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::vector_math::scalar
