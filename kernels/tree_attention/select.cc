#include <cstring>

#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {

#define ROW(name)       \
  namespace name {      \
  extern const Row row; \
  }
#include "tree_attention/rows.inc"
#undef ROW

const Row* find_row(const char* name) {
  static const Row* const rows[] = {
#define ROW(name) &name::row,
#include "tree_attention/rows.inc"
#undef ROW
  };
  for (const Row* row : rows)
    if (std::strcmp(row->name, name) == 0) return row;
  return nullptr;
}

}  // namespace edgedec::tree_attention
