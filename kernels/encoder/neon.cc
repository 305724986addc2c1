#include "simd/vec16_neon.h"
#include "encoder/impl.h"

namespace edgedec::encoder::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::encoder::neon
