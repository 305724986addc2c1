#include "common/vec16_avx2.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::avx2 {

extern const Row row;
const Row row = {"avx2", block_sums<Vec16Avx2>, indices_above<Vec16Avx2>, exp_one<Vec16Avx2>};

}  // namespace edgedec::head_topk::avx2
