#include "simd/vec16_neon.h"
#include "tree_attention/impl.h"

namespace edgedec::tree_attention::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::tree_attention::neon
