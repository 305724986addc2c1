#include "simd/vec16_avx2.h"
#include "experts/impl.h"

namespace edgedec::experts::avx2 {

extern const Row row;
const Row row = make_row<Vec16Avx2>("avx2");

}  // namespace edgedec::experts::avx2
