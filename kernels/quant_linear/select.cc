#include <cstring>

#include "quant_linear/quant_linear.h"

namespace edgedec::quant_linear {

#define ROW(name)         \
  namespace name {        \
  extern const Row row;   \
  }
#include "quant_linear/rows.inc"
#undef ROW

const Row* find_row(const char* name) {
  static const Row* const rows[] = {
#define ROW(name) &name::row,
#include "quant_linear/rows.inc"
#undef ROW
  };
  for (const Row* row : rows)
    if (std::strcmp(row->name, name) == 0) return row;
  return nullptr;
}

}  // namespace edgedec::quant_linear
