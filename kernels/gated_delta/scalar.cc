#include "simd/vec16.h"
#include "gated_delta/impl.h"

namespace edgedec::gated_delta::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::gated_delta::scalar
