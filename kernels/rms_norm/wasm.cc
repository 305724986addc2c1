#include "simd/vec16_wasm.h"
#include "rms_norm/impl.h"

namespace edgedec::rms_norm::wasm {

extern const Row row;
const Row row = make_row<Vec16Wasm>("wasm");

}  // namespace edgedec::rms_norm::wasm
