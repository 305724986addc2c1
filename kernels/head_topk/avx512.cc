#include "common/vec16_avx512.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::avx512 {

extern const Row row;
const Row row = {"avx512", block_sums<Vec16Avx512>, indices_above<Vec16Avx512>, exp_one<Vec16Avx512>};

}  // namespace edgedec::head_topk::avx512
