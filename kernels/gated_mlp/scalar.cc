#include "simd/vec16.h"
#include "gated_mlp/impl.h"

namespace edgedec::gated_mlp::scalar {

extern const Row row;
const Row row = {"scalar", activate_rows<Vec16Scalar>};

}  // namespace edgedec::gated_mlp::scalar
