#include "simd/vec16.h"
#include "short_conv/impl.h"

namespace edgedec::short_conv::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::short_conv::scalar
