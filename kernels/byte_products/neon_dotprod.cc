#include "byte_products/plain.h"

namespace edgedec::byte_products::neon_dotprod {

extern const Row row;
const Row row = {"neon_dotprod", plain_scores, plain_values};

}  // namespace edgedec::byte_products::neon_dotprod
