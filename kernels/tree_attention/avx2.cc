#include "simd/vec16_avx2.h"
#include "tree_attention/impl.h"

namespace edgedec::tree_attention::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::tree_attention::avx2
