// Sizes and checks that no instruction set has a say in.
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kQueries = 24;          // query vectors that share a block's keys: their floats stay in L1
constexpr size_t kScoreFloats = 1 << 16;  // scores of a block: they stay in L2

}  // namespace

size_t score_stride(const Config& config, const Pass& pass) {
  const size_t all = pass.length + pass.tokens;
  return ((config.window && config.window < all ? config.window : all) + 15) / 16 * 16;
}

size_t block_tokens(const Config& config, const Pass& pass) {
  const size_t group = config.heads / config.kv_heads;
  const size_t by_queries = kQueries / group, stride = score_stride(config, pass);
  const size_t by_scores = stride ? kScoreFloats / (group * stride) : by_queries;
  const size_t block = by_queries < by_scores ? by_queries : by_scores;
  return block == 0 ? 1 : block;
}

size_t scratch_floats(const Config& config, const Pass& pass) {
  const size_t group = config.heads / config.kv_heads, block = block_tokens(config, pass);
  return block * group * score_stride(config, pass)  // scores
         + block * pass.tokens;              // paths: int32 of the same size
}

const char* problem(const Config& config, const Pass& pass, size_t capacity) {
  if (!config.kv_heads || !config.heads || config.heads % config.kv_heads)
    return "num_heads must be a positive multiple of num_kv_heads";
  if (!config.dim || config.dim % 16) return "head_dim must be a positive multiple of 16";
  if (!(config.softcap >= 0.0f)) return "softcap must be 0 or more";
  if (pass.length > capacity || pass.tokens > capacity - pass.length)
    return "the cache is too small: length + tokens exceeds its capacity";
  for (size_t m = 0; m < pass.tokens; ++m)
    if (pass.parents[m] < -1 || pass.parents[m] >= static_cast<int64_t>(m))
      return "parents[i] must lie in [-1, i)";
  return nullptr;
}

}  // namespace edgedec::tree_attention
