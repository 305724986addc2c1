#include <cstring>

#include "quant_linear/quant_linear.h"

#define EDGEDEC_ROWS "quant_linear/rows.inc"

namespace edgedec::quant_linear {
#include "common/select_row.inc"
}  // namespace edgedec::quant_linear
