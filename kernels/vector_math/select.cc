#include <cstring>

#include "vector_math/vector_math.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::vector_math {
#include "common/select_row.inc"
}  // namespace edgedec::vector_math
