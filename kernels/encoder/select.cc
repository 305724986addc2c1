#include <cstring>

#include "encoder/encoder.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::encoder {
#include "common/select_row.inc"
}  // namespace edgedec::encoder
