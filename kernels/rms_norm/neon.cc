#include "simd/vec16_neon.h"
#include "rms_norm/impl.h"

namespace edgedec::rms_norm::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::rms_norm::neon
