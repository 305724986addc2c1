#include "common/vec16.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::scalar {

extern const Row row;
const Row row = {"scalar", block_sums<Vec16Scalar>, indices_above<Vec16Scalar>, exp_one<Vec16Scalar>};

}  // namespace edgedec::head_topk::scalar
