#include "simd/vec16_wasm.h"
#include "vector_math/impl.h"

namespace edgedec::vector_math::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::vector_math::wasm
