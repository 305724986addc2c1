#include <cstring>

#include "experts/experts.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::experts {

#include "common/select_row.inc"

}  // namespace edgedec::experts
