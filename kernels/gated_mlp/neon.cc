#include "simd/vec16_neon.h"
#include "gated_mlp/impl.h"

namespace edgedec::gated_mlp::neon {

extern const Row row;
const Row row = {"neon", activate_rows<Vec16Neon>};

}  // namespace edgedec::gated_mlp::neon
