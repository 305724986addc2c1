#include "simd/vec16_wasm.h"
#include "experts/impl.h"

namespace edgedec::experts::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::experts::wasm
