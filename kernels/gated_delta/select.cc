#include <cstring>

#include "gated_delta/gated_delta.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::gated_delta {
#include "common/select_row.inc"
}  // namespace edgedec::gated_delta
