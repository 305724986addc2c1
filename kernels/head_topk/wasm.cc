#include "simd/vec16_wasm.h"
#include "head_topk/impl.h"

namespace edgedec::head_topk::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::head_topk::wasm
