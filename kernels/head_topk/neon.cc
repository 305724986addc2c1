#include "simd/vec16_neon.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::neon {

extern const Row row;
const Row row = make_row<Vec16Neon>("neon");

}  // namespace edgedec::head_topk::neon
