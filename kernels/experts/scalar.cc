#include "simd/vec16.h"
#include "experts/impl.h"

namespace edgedec::experts::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::experts::scalar
