#include "simd/vec16_wasm.h"
#include "tree_attention/impl.h"

namespace edgedec::tree_attention::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::tree_attention::wasm
