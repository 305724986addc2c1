#include "simd/vec16.h"
#include "rms_norm/impl.h"

namespace edgedec::rms_norm::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::rms_norm::scalar
