// The quantised ops by row name, for tests and benchmarks. Status: 0 done, 1 row cannot run here, 2 bad argument,
// 3 not enough memory.
#include <algorithm>
#include <ctime>

#include "common/capi.h"
#include "common/isa.h"
#include "common/lock.h"
#include "common/threads.h"
#include "gated_mlp/gated_mlp.h"
#include "head_topk/head_topk.h"
#include "quant_embedding/quant_embedding.h"
#include "quant_linear/linear.h"

using namespace edgedec;

namespace {

constexpr int kLacksMemory = 3;

const quant_linear::Row* runnable(const char* name) {
  const quant_linear::Row* row = quant_linear::find_row(name);
  return row && cpu_has(name) ? row : nullptr;
}

bool weight(const char* format, const uint8_t* data, int rows, int cols, Weight* w) {
  *w = {format_by_name(format), rows, cols, data};
  return w->format != FormatId::kCount && rows > 0 && cols > 0;
}

// Threads that quantise activations in one call. Each waits in its first piece until all have one, or for a second.
struct Meeting {
  static constexpr size_t kMost = 256;

  Meeting(quant_linear::QuantiseFn real, size_t threads_expected) : quantise(real), expected(threads_expected) {}

  quant_linear::QuantiseFn quantise;
  size_t expected;
  std::atomic<size_t> here{0};
  Mutex mutex;
  os::ThreadId threads[kMost] = {};

  void attend() {
    if (!came()) return;
    const time_t until = std::time(nullptr) + 2;  // whole seconds: one at least
    while (here < expected && std::time(nullptr) < until) os::yield();
  }

  // True in the first call of this thread.
  bool came() {
    const Guard guard(mutex);
    const auto self = [](os::ThreadId other) { return os::same(other, os::this_thread()); };
    if (here == kMost || std::any_of(threads, threads + here, self)) return false;
    threads[here] = os::this_thread();
    ++here;
    return true;
  }
};

Meeting* meeting = nullptr;  // of the call that runs: one at a time

void quantise_in_meeting(const float* x, int cols, int k, size_t first, size_t last, int8_t* q, float* scale,
                         int32_t* sum) {
  meeting->attend();
  meeting->quantise(x, cols, k, first, last, q, scale, sum);
}

}  // namespace

// How many threads take part in quantising x[m][cols] for one QuantLinear; -1: bad argument or row.
EDGEDEC_EXPORT int edgedec_quantising_threads(const char* name, const char* format, const uint8_t* data, int rows,
                                              int cols, const float* x, int m, int terms, float* out) {
  const quant_linear::Row* row = runnable(name);
  Weight w;
  if (!row || !weight(format, data, rows, cols, &w) || terms < 1 || terms > 2) return -1;
  Meeting here(row->quantise, std::min(static_cast<size_t>(threads_per_call), Meeting::kMost));
  meeting = &here;
  quant_linear::Row watched = *row;
  watched.quantise = quantise_in_meeting;
  OwnThreads threads;
  quant_linear::linear(watched, threads, &w, 1, x, m, terms, nullptr, nullptr, out);
  meeting = nullptr;
  return static_cast<int>(here.here);
}

EDGEDEC_EXPORT int edgedec_quant_linear(const char* name, const char* format, const uint8_t* data, int rows, int cols,
                                        const float* x, int m, int terms, const float* bias, const float* residual,
                                        float* out) {
  const quant_linear::Row* row = runnable(name);
  Weight w;
  if (!row) return 1;
  if (!weight(format, data, rows, cols, &w) || terms < 1 || terms > 2) return 2;
  OwnThreads threads;
  quant_linear::linear(*row, threads, &w, 1, x, m, terms, bias, residual, out);
  return threads.lacks_memory() ? kLacksMemory : 0;
}

EDGEDEC_EXPORT int edgedec_quantise(const char* name, const float* x, int m, int cols, int8_t* q, float* scale,
                                    int32_t* sum) {
  const quant_linear::Row* row = runnable(name);
  if (!row) return 1;
  const int k = padded_k(cols);
  row->quantise(x, cols, k, 0, static_cast<size_t>(m) * (k / kGroup), q, scale, sum);
  return 0;
}

EDGEDEC_EXPORT int edgedec_gated_mlp(const char* name, const char* gate_format, const uint8_t* gate,
                                     const char* up_format, const uint8_t* up, int rows, int cols, int activation,
                                     const float* x, int m, float* out) {
  const quant_linear::Row* row = runnable(name);
  Weight g, u;
  if (!row) return 1;
  if (!weight(gate_format, gate, rows, cols, &g) || !weight(up_format, up, rows, cols, &u)) return 2;
  if (activation < 0 || activation > 2) return 2;  // silu, gelu, clamped silu
  OwnThreads threads;
  gated_mlp::gated_mlp(*row, *gated_mlp::find_row(float_row(name)), threads, g, u,
                       static_cast<gated_mlp::Activation>(activation), x, m, out);
  return threads.lacks_memory() ? kLacksMemory : 0;
}

EDGEDEC_EXPORT int edgedec_head_topk(const char* name, const char* format, const uint8_t* data, int rows, int cols,
                                     const float* x, int r, int refined, float softcap, float temperature,
                                     const int64_t* keep, int kept, int k, float* values, int32_t* ids, float* logsumexp,
                                     float* entropy, float* logits) {
  const quant_linear::Row* row = runnable(name);
  Weight w;
  if (!row) return 1;
  if (!weight(format, data, rows, cols, &w) || k < 1 || k > head_topk::kBlock) return 2;
  OwnThreads threads;
  head_topk::head_topk(*row, *head_topk::find_row(float_row(name)), threads, w, x, r, refined != 0,
                       {softcap, 1.0f / temperature}, keep, kept, k, {values, ids, logsumexp, entropy, logits});
  return threads.lacks_memory() ? kLacksMemory : 0;
}

EDGEDEC_EXPORT int edgedec_quant_embedding(const char* format, const uint8_t* data, int rows, int cols,
                                           const int64_t* ids, int n, float scale, float* out) {
  Weight w;
  if (!weight(format, data, rows, cols, &w) || !quant_embedding::inside(w, ids, n)) return 2;
  return quant_embedding::embed(w, ids, n, scale, out) ? 0 : kLacksMemory;
}
