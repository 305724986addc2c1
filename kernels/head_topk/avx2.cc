#include "simd/vec16_avx2.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::head_topk::avx2
