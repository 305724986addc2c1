// C ABI for tests. Returns 0, or 1 when the row or the function is unknown or the CPU cannot run the row.
#include <cstring>

#include "common/capi.h"
#include "common/isa.h"
#include "vector_math/vector_math.h"

namespace {

using edgedec::vector_math::Row;

const Row* runnable(const char* name) {
  return edgedec::cpu_has(name) ? edgedec::vector_math::find_row(name) : nullptr;
}

}  // namespace

EDGEDEC_EXPORT int edgedec_math_map(const char* row, const char* function, const float* x, float* y, size_t n) {
  const Row* r = runnable(row);
  if (!r) return 1;
#define TRY(name)                       \
  if (!std::strcmp(function, #name)) { \
    r->name(x, y, n);                   \
    return 0;                           \
  }
  TRY(exp) TRY(silu) TRY(gelu_tanh) TRY(tanh) TRY(sqrt) TRY(abs) TRY(round) TRY(to_ints)
  TRY(reduce_add) TRY(reduce_add_each) TRY(reduce_max)
#undef TRY
  return 1;
}

EDGEDEC_EXPORT int edgedec_math_combine(const char* row, const char* function, const float* a, const float* b,
                                     const float* c, float* y, size_t n) {
  const Row* r = runnable(row);
  if (!r) return 1;
#define TRY(name)                       \
  if (!std::strcmp(function, #name)) { \
    r->name(a, b, c, y, n);             \
    return 0;                           \
  }
  TRY(add) TRY(sub) TRY(mul) TRY(div) TRY(fma) TRY(max) TRY(min) TRY(greater)
#undef TRY
  return 1;
}

EDGEDEC_EXPORT int edgedec_math_to_half(const char* row, const float* x, uint16_t* y, size_t n) {
  const Row* r = runnable(row);
  if (r) r->to_half(x, y, n);
  return r ? 0 : 1;
}

EDGEDEC_EXPORT int edgedec_math_from_half(const char* row, const uint16_t* x, float* y, size_t n) {
  const Row* r = runnable(row);
  if (r) r->from_half(x, y, n);
  return r ? 0 : 1;
}

EDGEDEC_EXPORT int edgedec_math_log(const char* row, const double* x, double* y, size_t n) {
  const Row* r = runnable(row);
  if (r) r->log(x, y, n);
  return r ? 0 : 1;
}

EDGEDEC_EXPORT int edgedec_math_sincos(const char* row, const double* x, double* sine, double* cosine, size_t n) {
  const Row* r = runnable(row);
  if (r) r->sincos(x, sine, cosine, n);
  return r ? 0 : 1;
}
