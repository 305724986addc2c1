#include "simd/vec16_wasm.h"
#include "gated_delta/impl.h"

namespace edgedec::gated_delta::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::gated_delta::wasm
