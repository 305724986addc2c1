#include "simd/vec16_neon.h"
#include "experts/impl.h"

namespace edgedec::experts::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::experts::neon
