// C ABI for tests. Returns 0, or 1 when the row or a name is unknown or the CPU cannot run it.
#include "common/capi.h"
#include "common/isa.h"
#include "encoder/encoder.h"

using namespace edgedec::encoder;

namespace {

const Row* runnable(const char* row) { return edgedec::cpu_has(row) ? find_row(row) : nullptr; }

}  // namespace

EDGEDEC_EXPORT int edgedec_layer_norm(const char* row, const float* x, const float* added, const float* weight,
                                      const float* bias, float* y, size_t m0, size_t m1, size_t d, float epsilon) {
  const Row* r = runnable(row);
  if (r) r->norm(x, added, weight, bias, y, m0, m1, d, epsilon);
  return r ? 0 : 1;
}

EDGEDEC_EXPORT int edgedec_activate(const char* row, const char* function, const float* x, const float* factor, float* y,
                                    size_t n) {
  const Row* r = runnable(row);
  const Function f = function_named(function);
  if (!r || f == Function::kCount) return 1;
  r->activate(f, x, factor, y, n);
  return 0;
}

EDGEDEC_EXPORT int edgedec_pool(const char* row, const char* pooling, const float* x, size_t first, size_t end, size_t d,
                                float* y) {
  const Row* r = runnable(row);
  const Pooling p = pooling_named(pooling);
  if (!r || p == Pooling::kCount || first >= end) return 1;
  r->pool(p, x, first, end, d, y);
  return 0;
}
