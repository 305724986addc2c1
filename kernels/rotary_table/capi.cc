// C ABI for tests. Returns 0, or 1 when the row is unknown or the CPU cannot run it.
#include "common/capi.h"
#include "common/isa.h"
#include "rotary_table/rotary_table.h"

EDGEDEC_EXPORT int edgedec_rotary_table(const char* row, const int64_t* positions,
                                        const float* inv_freq, float* table,
                                        size_t m0, size_t m1, size_t d) {
  const auto* r = edgedec::cpu_has(row) ? edgedec::rotary_table::find_row(row) : nullptr;
  if (r) r->run(positions, inv_freq, table, m0, m1, d);
  return r ? 0 : 1;
}
