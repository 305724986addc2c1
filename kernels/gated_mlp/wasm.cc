#include "simd/vec16_wasm.h"
#include "gated_mlp/impl.h"

namespace edgedec::gated_mlp::wasm {

extern const Row row;
const Row row = {"wasm", activate_rows<Vec16Wasm>};

}  // namespace edgedec::gated_mlp::wasm
