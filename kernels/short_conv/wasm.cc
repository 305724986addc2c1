#include "simd/vec16_wasm.h"
#include "short_conv/impl.h"

namespace edgedec::short_conv::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::short_conv::wasm
