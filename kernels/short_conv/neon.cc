#include "simd/vec16_neon.h"
#include "short_conv/impl.h"

namespace edgedec::short_conv::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::short_conv::neon
