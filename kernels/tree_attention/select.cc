#include <cstring>

#include "tree_attention/tree_attention.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::tree_attention {
#include "common/select_row.inc"
}  // namespace edgedec::tree_attention
