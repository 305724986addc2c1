#include "simd/vec16_avx2.h"
#include "short_conv/impl.h"

namespace edgedec::short_conv::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::short_conv::avx2
