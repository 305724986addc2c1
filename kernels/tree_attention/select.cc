#include <cstring>

#include "common/isa.h"
#include "tree_attention/tree_attention.h"

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::tree_attention {
#include "common/select_row.inc"

Kernels find_kernels(const char* name) {
  if (const byte_products::Row* bytes = byte_products::find_row(name)) return {find_row(float_row(name)), bytes};
  // The preferred one of the rows that go with these floats and run on this CPU.
  for (const char* const* isa = isa_preference(); *isa; ++isa)
    if (std::strcmp(float_row(*isa), name) == 0 && cpu_has(*isa)) return {find_row(name), byte_products::find_row(*isa)};
  return {find_row(name), byte_products::find_row("scalar")};
}

}  // namespace edgedec::tree_attention
