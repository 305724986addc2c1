#include "simd/vec16_avx2.h"
#include "encoder/impl.h"

namespace edgedec::encoder::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::encoder::avx2
