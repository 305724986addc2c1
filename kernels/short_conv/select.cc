#include <cstring>

#include "short_conv/short_conv.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::short_conv {
#include "common/select_row.inc"
}  // namespace edgedec::short_conv
