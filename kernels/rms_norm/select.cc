#include <cstring>

#include "rms_norm/rms_norm.h"

namespace edgedec::rms_norm {

#define ROW(name)       \
  namespace name {      \
  extern const Row row; \
  }
#include "rms_norm/rows.inc"
#undef ROW

const Row* find_row(const char* name) {
  static const Row* const rows[] = {
#define ROW(name) &name::row,
#include "rms_norm/rows.inc"
#undef ROW
  };
  for (const Row* row : rows)
    if (std::strcmp(row->name, name) == 0) return row;
  return nullptr;
}

}  // namespace edgedec::rms_norm
