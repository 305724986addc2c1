// C ABI for tests: one whole pass in a cache f16[2, Hkv, C, d], split as a caller with threads would split it.
// Returns 0, 1 when the row is unknown or the CPU cannot run it, 2 when an argument is wrong.
#include <vector>

#include "common/isa.h"
#include "tree_attention/tree_attention.h"

using namespace edgedec::tree_attention;

#define EDGEDEC_API extern "C" __attribute__((visibility("default")))

// split_tokens, split_heads: attend() is called on ranges of that many, last range first.
EDGEDEC_API int edgedec_tree_attention(const char* row, const Config* config, const float* qkv, const float* rotary,
                                       const int64_t* parents, size_t tokens, size_t length, uint16_t* cache,
                                       size_t capacity, const float* q_norm, const float* k_norm, float* out,
                                       size_t split_tokens, size_t split_heads) {
  const Row* r = edgedec::cpu_has(row) ? find_row(row) : nullptr;
  if (!r) return 1;
  const Pass pass = {parents, tokens, length};
  if (problem(*config, pass, capacity) || !split_tokens || !split_heads) return 2;
  const size_t head_stride = capacity * config->dim;
  const Cache layer = {cache, cache + config->kv_heads * head_stride, head_stride};
  std::vector<float> queries(tokens * config->heads * config->dim), scratch(scratch_floats(*config, pass));
  for (size_t m = 0; m < tokens; ++m)
    r->prepare(*config, layer, length, qkv, rotary, q_norm, k_norm, queries.data(), m, m + 1);
  for (size_t m1 = tokens; m1 > 0;) {
    const size_t m0 = m1 > split_tokens ? m1 - split_tokens : 0;
    for (size_t h0 = 0; h0 < config->heads; h0 += split_heads) {
      const size_t h1 = h0 + split_heads < config->heads ? h0 + split_heads : config->heads;
      r->attend(*config, layer, pass, queries.data(), out, m0, m1, h0, h1, scratch.data());
    }
    m1 = m0;
  }
  return 0;
}

// The message for wrong arguments, or null.
EDGEDEC_API const char* edgedec_tree_attention_problem(const Config* config, const int64_t* parents, size_t tokens,
                                                       size_t length, size_t capacity) {
  return problem(*config, Pass{parents, tokens, length}, capacity);
}

EDGEDEC_API size_t edgedec_tree_attention_block(const Config* config, size_t tokens, size_t length) {
  return block_tokens(*config, Pass{nullptr, tokens, length});
}
