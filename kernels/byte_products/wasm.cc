#include "byte_products/plain.h"

namespace edgedec::byte_products::wasm {

extern const Row row;
const Row row = {"wasm", plain_scores, plain_values};

}  // namespace edgedec::byte_products::wasm
