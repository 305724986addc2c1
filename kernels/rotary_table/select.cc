#include <cstring>

#include "rotary_table/rotary_table.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::rotary_table {
#include "common/select_row.inc"
}  // namespace edgedec::rotary_table
