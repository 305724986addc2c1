#include "simd/vec16_avx2.h"
#include "rms_norm/impl.h"

namespace edgedec::rms_norm::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::rms_norm::avx2
