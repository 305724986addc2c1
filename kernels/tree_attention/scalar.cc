#include "simd/vec16.h"
#include "tree_attention/impl.h"

namespace edgedec::tree_attention::scalar {

extern const Row row;
const Row row = make_row<Vec16Scalar>("scalar");

}  // namespace edgedec::tree_attention::scalar
