#include "simd/vec16_avx512.h"
#include "rms_norm/impl.h"

namespace edgedec::rms_norm::avx512 {

extern const Row row;
const Row row = make_row<Vec16Avx512>("avx512");

}  // namespace edgedec::rms_norm::avx512
