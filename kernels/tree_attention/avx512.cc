#include "simd/vec16_avx512.h"
#include "tree_attention/impl.h"

namespace edgedec::tree_attention::avx512 {

extern const Row row;
const Row row = make_row<Vec16Avx512>("avx512");

}  // namespace edgedec::tree_attention::avx512
