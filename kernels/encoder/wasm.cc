#include "simd/vec16_wasm.h"
#include "encoder/impl.h"

namespace edgedec::encoder::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::encoder::wasm
