#include "simd/vec16_neon.h"
#include "gated_delta/impl.h"

namespace edgedec::gated_delta::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::gated_delta::neon
