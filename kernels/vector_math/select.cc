#include <cstring>

#include "vector_math/vector_math.h"

namespace edgedec::vector_math {

#define ROW(name)       \
  namespace name {      \
  extern const Row row; \
  }
#include "vector_math/rows.inc"
#undef ROW

const Row* find_row(const char* name) {
  static const Row* const rows[] = {
#define ROW(name) &name::row,
#include "vector_math/rows.inc"
#undef ROW
  };
  for (const Row* row : rows)
    if (std::strcmp(row->name, name) == 0) return row;
  return nullptr;
}

}  // namespace edgedec::vector_math
