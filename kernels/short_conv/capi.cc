// C ABI for tests: a pass of one sequence, with its trail [32][hidden]. Returns 0, 1 when the row is unknown or the CPU
// cannot run it, 2 when an argument is wrong, 3 without memory.
#include "common/array.h"
#include "common/capi.h"
#include "common/isa.h"
#include "common/threads.h"
#include "short_conv/short_conv.h"

using namespace edgedec::short_conv;

EDGEDEC_EXPORT int edgedec_short_conv(
    const char* row, size_t hidden, size_t taps, const float* projected, const int64_t* parents, size_t tokens,
    size_t length, size_t applied, float* trail, const float* conv, float* out) {
  const Row* r = edgedec::cpu_has(row) ? find_row(row) : nullptr;
  if (!r) return 1;
  const Config config = {hidden, taps};
  if (problem(config)) return 2;
  edgedec::Array<float> products;
  if (!products.resize(tokens * hidden)) return 3;
  const Job job = {{parents, tokens, length, applied, trail, hidden, products.begin(), hidden}, projected,
                   products.begin(), out};
  if (edgedec::recurrent::problem(job.one, taps)) return 2;
  edgedec::OwnThreads own;
  run(*r, own, config, conv, &job, 1);
  return own.lacks_memory() ? 3 : 0;
}
