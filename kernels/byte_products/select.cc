#include <cstring>

#include "byte_products/byte_products.h"

#define EDGEDEC_ROWS "quant_linear/rows.inc"

namespace edgedec::byte_products {
#include "common/select_row.inc"
}  // namespace edgedec::byte_products
