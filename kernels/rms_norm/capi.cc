// C ABI for tests. Returns 0, or 1 when the row is unknown or the CPU cannot run it.
#include "common/capi.h"
#include "common/isa.h"
#include "rms_norm/rms_norm.h"

EDGEDEC_EXPORT int edgedec_rms_norm(const char* row, const float* x,
                                    const float* weight, const float* residual,
                                    float* y, size_t m0, size_t m1, size_t d,
                                    float epsilon) {
  const auto* r = edgedec::cpu_has(row) ? edgedec::rms_norm::find_row(row) : nullptr;
  if (r) r->run(x, weight, residual, y, m0, m1, d, epsilon);
  return r ? 0 : 1;
}
