#include "simd/vec16.h"
#include "encoder/impl.h"

namespace edgedec::encoder::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::encoder::scalar
