// C ABI for tests: a pass of one sequence, with its trail [32][row] and its state. Returns 0, 1 when the row is unknown or
// the CPU cannot run it, 2 when an argument is wrong, 3 without memory.
#include "common/capi.h"
#include "common/isa.h"
#include "common/threads.h"
#include "gated_delta/gated_delta.h"

using namespace edgedec::gated_delta;

EDGEDEC_EXPORT int edgedec_gated_delta(const char* row, const Config* config, const float* projected,
                                    const int64_t* parents, size_t tokens, size_t length, size_t applied, float* trail,
                                    float* state, const float* conv, const float* decay, const float* dt_bias,
                                    const float* norm, float* out) {
  const Row* r = edgedec::cpu_has(row) ? find_row(row) : nullptr;
  if (!r) return 1;
  if (problem(*config)) return 2;
  const Job job = {{parents, tokens, length, applied, trail, config->trail_row(), projected, config->token_row()}, state, out};
  if (edgedec::recurrent::problem(job.one, config->taps)) return 2;
  edgedec::OwnThreads own;
  run(*r, own, *config, {conv, decay, dt_bias, norm}, &job, 1);
  return own.lacks_memory() ? 3 : 0;
}
