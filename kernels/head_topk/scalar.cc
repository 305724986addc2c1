#include "simd/vec16.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::head_topk::scalar
