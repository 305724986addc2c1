#include "rotary_table/impl.h"

namespace edgedec::rotary_table::wasm {

extern const Row row;
const Row row = {"wasm", run};

}  // namespace edgedec::rotary_table::wasm
