#include "simd/vec16_avx512.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::avx512 {

extern const Row row;
const Row row = make_row<Vec16Avx512>("avx512");

}  // namespace edgedec::head_topk::avx512
