// C ABI for tests: one whole pass in a cache f16[2, Hkv, C, width]. Returns 0, 1 when the row is unknown or the CPU
// cannot run it, 2 when an argument is wrong, 3 without memory.
#include "common/array.h"
#include "common/capi.h"
#include "common/isa.h"
#include "common/threads.h"
#include "encoder/encoder.h"
#include "tree_attention/segments.h"

using namespace edgedec::tree_attention;

namespace {

// Runs the last task first, since no task may depend on another of its step.
struct Backwards : edgedec::Parallel {
  void run(size_t n, void (*body)(void*, size_t), void* context) override {
    while (n > 0) body(context, --n);
  }
};

}  // namespace

// split: as for attend(), or null for split_for(). attention[Hkv, capacity]: the weights by slot, or null.
EDGEDEC_EXPORT int edgedec_tree_attention(const char* row, const Config* config, const float* qkv, const float* rotary,
                                       const int64_t* parents, size_t tokens, size_t length, uint16_t* cache,
                                       size_t capacity, size_t width, const float* q_norm, const float* k_norm,
                                       const float* sinks, float* out, const size_t* split, float* attention) {
  const Kernels kernels = edgedec::cpu_has(row) ? find_kernels(row) : Kernels{};
  const Row* r = kernels.floats;
  if (!r) return 1;
  const Pass pass = {parents, tokens, length, 0, sinks};
  if (problem(*config, pass, capacity) || (attention && config->ring)) return 2;
  const Split chosen = split ? Split{split[0], split[1], split[2]} : split_for(*config, {&pass, 1});
  const size_t group = config->heads / config->kv_heads;
  if (!chosen.tokens || (chosen.tokens > 1 && chosen.tokens * group > kMostQueries)) return 2;
  if (chosen.keys && (!chosen.columns || chosen.columns % 16)) return 2;
  Cache layer;
  if (!lay_out(*config, cache, capacity, width, &layer)) return 2;
  edgedec::Array<float> queries;
  if (!queries.resize(tokens * config->heads * config->dim)) return 3;
  for (size_t m = 0; m < tokens; ++m)
    r->prepare(*config, layer, length, qkv, rotary, q_norm, k_norm, queries.begin(), m, m + 1);
  Backwards backwards;
  edgedec::OwnThreads own;
  edgedec::Parallel& threads = edgedec::threads_per_call == 1 ? static_cast<edgedec::Parallel&>(backwards) : own;
  attend(kernels, threads, *config, layer, {&pass, 1}, queries.begin(), out, chosen, {attention, capacity});
  return threads.lacks_memory() ? 3 : 0;
}

// Attention of whole texts, see segments.h; offsets[numbers].
EDGEDEC_EXPORT int edgedec_segment_attention(const char* row, const Config* config, const float* qkv, const float* rotary,
                                          const int64_t* offsets, size_t numbers, size_t before, size_t after,
                                          const float* q_norm, const float* k_norm, float* out) {
  const Row* r = edgedec::cpu_has(row) ? find_row(row) : nullptr;
  if (!r) return 1;
  if (problem(*config, Pass{}, 0) || config->window || !numbers) return 2;
  const size_t tokens = static_cast<size_t>(offsets[numbers - 1]);
  if (!edgedec::encoder::cuts(offsets, numbers, tokens)) return 2;
  edgedec::Array<float> queries;
  edgedec::Array<uint16_t> keys;
  if (!queries.resize(tokens * config->heads * config->dim)) return 3;
  if (!keys.resize(2 * tokens * config->kv_heads * config->dim)) return 3;
  Cache cache;
  if (!lay_out(*config, keys.begin(), tokens, config->dim, &cache)) return 2;
  r->prepare(*config, cache, 0, qkv, rotary, q_norm, k_norm, queries.begin(), 0, tokens);
  Backwards threads;
  attend_texts(*r, threads, *config, cache, {offsets, numbers - 1, before, after}, queries.begin(), out);
  return threads.lacks_memory() ? 3 : 0;
}

// The error in the arguments, or null.
EDGEDEC_EXPORT const char* edgedec_tree_attention_problem(const Config* config, const int64_t* parents, size_t tokens,
                                                       size_t length, size_t capacity) {
  return problem(*config, Pass{parents, tokens, length}, capacity);
}

// split_for() as three numbers.
EDGEDEC_EXPORT void edgedec_tree_attention_split(const Config* config, size_t tokens, size_t length, size_t* split) {
  const Pass pass{nullptr, tokens, length};
  const Split s = split_for(*config, {&pass, 1});
  split[0] = s.tokens, split[1] = s.keys, split[2] = s.columns;
}
