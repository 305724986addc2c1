#include "byte_products/plain.h"

namespace edgedec::byte_products::neon_i8mm {

extern const Row row;
const Row row = {"neon_i8mm", plain_scores, plain_values};

}  // namespace edgedec::byte_products::neon_i8mm
