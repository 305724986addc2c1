#include <cstring>

#include "rms_norm/rms_norm.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::rms_norm {
#include "common/select_row.inc"
}  // namespace edgedec::rms_norm
