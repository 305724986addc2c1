#include "byte_products/plain.h"

namespace edgedec::byte_products::scalar {

extern const Row row;
const Row row = {"scalar", plain_scores, plain_values};

}  // namespace edgedec::byte_products::scalar
