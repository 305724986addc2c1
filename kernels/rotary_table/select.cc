#include <cstring>

#include "rotary_table/rotary_table.h"

namespace edgedec::rotary_table {

#define ROW(name)       \
  namespace name {      \
  extern const Row row; \
  }
#include "rotary_table/rows.inc"
#undef ROW

const Row* find_row(const char* name) {
  static const Row* const rows[] = {
#define ROW(name) &name::row,
#include "rotary_table/rows.inc"
#undef ROW
  };
  for (const Row* row : rows)
    if (std::strcmp(row->name, name) == 0) return row;
  return nullptr;
}

}  // namespace edgedec::rotary_table
