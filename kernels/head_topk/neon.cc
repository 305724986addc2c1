#include "common/vec16_neon.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::neon {

extern const Row row;
const Row row = {"neon", block_sums<Vec16Neon>, indices_above<Vec16Neon>, exp_one<Vec16Neon>};

}  // namespace edgedec::head_topk::neon
