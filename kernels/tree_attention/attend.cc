// Splits a pass over threads and checks its arguments; the same for all instruction sets.
#include <algorithm>

#include "common/sequences.h"
#include "tree_attention/elements.h"
#include "tree_attention/paths.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kScoreFloats = 1 << 16;   // scores of a block that one task computes: they stay in L2
constexpr size_t kEnoughBlocks = 16;       // to keep all threads busy
constexpr size_t kWorthSplitting = 1 << 19;  // bytes of fp16 keys and values: tens of microseconds; int8 takes as long
constexpr size_t kKeyBytes = 64 << 10;     // of a task
constexpr size_t kColumns = 64;            // of a task: two cache lines of every value; one takes a tenth longer
constexpr size_t kMostSlots = INT32_MAX;   // longer than any context; sums of two do not wrap around

// The query heads of a kv head, split into units that a block can take.
struct Units {
  size_t group, step, per_kv_head, count;
};

Units units(const Config& config) {
  const size_t group = config.heads / config.kv_heads, step = std::min(group, kMostQueries);
  const size_t per_kv_head = (group + step - 1) / step;
  return {group, step, per_kv_head, per_kv_head * config.kv_heads};
}

size_t score_stride(const Config& config, const Pass& pass) {
  const size_t all = pass.length + pass.tokens;
  return ((config.window && config.window < all ? config.window : all) + 15) / 16 * 16;
}

// Floats of the scores and sums of one unit of a block.
size_t unit_floats(const Units& u, size_t tokens, size_t stride) { return tokens * u.step * stride + kMostQueries; }

// The block of computed tokens [m0, m0 + n), without a unit. room: n * pass.tokens.
Block block_at(const Config& config, const Pass& pass, size_t m0, size_t n, int32_t* room) {
  Block b{};
  b.m0 = m0;
  b.tokens = n;
  b.stride = score_stride(config, pass);
  b.common_end = pass.length + find_paths(config, pass, pass.first + m0, n, room, b.paths);
  for (size_t t = 0; t < n; ++t) b.common_first = std::max(b.common_first, b.paths[t].first);
  return b;
}

// The same block for unit i; `floats` holds unit_floats.
Block of_unit(Block b, const Units& u, size_t i, float* floats) {
  b.h0 = i / u.per_kv_head * u.group + i % u.per_kv_head * u.step;
  b.h1 = std::min(b.h0 + u.step, (i / u.per_kv_head + 1) * u.group);
  b.scores = floats;
  b.sums = floats + b.tokens * u.step * b.stride;
  return b;
}

// Raises the weights of a kv head to those of one of its blocks. The order of blocks does not change the bits: a
// maximum does not round, and with NaN it is the other number.
void look(const Cache& cache, size_t length, const Block& b, float* most) {
  for (size_t q = 0; q < b.queries(); ++q) {
    const Path& path = b.paths[q / b.heads()];
    const float *scores = b.scores + q * b.stride, sum = b.sums[q];
    for_runs(path, length, cache.capacity, path.first, path.end, [&](size_t slot, size_t index, size_t n) {
      const float* p = scores + (index - path.first);
      for (size_t j = 0; j < n; ++j) {
        const float weight = p[j] / sum;
        most[slot + j] = weight > most[slot + j] ? weight : most[slot + j];
      }
    });
  }
}

// Computes all steps of a block and unit in one task, or of all blocks of a kv head.
void whole_blocks(const Row& row, Parallel& threads, const Config& config, const Cache& cache, const Pass& pass,
                  const float* queries, float* out, size_t tokens, const Looked& looked) {
  const Units u = units(config);
  const size_t blocks = (pass.computed() + tokens - 1) / tokens;
  const auto compute = [&](size_t i, size_t unit, float* most) {
    const size_t m0 = i * tokens, n = std::min(tokens, pass.computed() - m0);
    auto* chains = scratch<int32_t>(Scratch::kPaths, n * pass.tokens);
    auto* room = scratch<float>(Scratch::kScores, unit_floats(u, n, score_stride(config, pass)));
    if (!chains || !room) return threads.lack_memory();
    const Block block = block_at(config, pass, m0, n, chains);
    const Block b = of_unit(block, u, unit, room);
    row.score(config, cache, pass.length, b, queries, 0, SIZE_MAX);
    row.weigh(config, b, 0, b.queries());
    row.gather(config, cache, pass.length, b, out, 0, config.dim);
    if (most) look(cache, pass.length, b, most);
  };
  auto one = [&](size_t task) { compute(task / u.count, task % u.count, nullptr); };
  auto kv_head = [&](size_t head) {
    float* most = looked.weights + head * looked.stride;
    std::fill_n(most, pass.length + pass.tokens, 0.0f);
    for (size_t i = 0; i < blocks; ++i)
      for (size_t unit = 0; unit < u.per_kv_head; ++unit) compute(i, head * u.per_kv_head + unit, most);
  };
  looked.weights ? parallel_for(threads, config.kv_heads, kv_head) : parallel_for(threads, blocks * u.count, one);
}

// Computes one block step by step, in one parallel section whose threads share the pieces of each step.
void split_block(const Row& row, Parallel& threads, const Config& config, const Cache& cache, size_t length,
                 const Block& block, const float* queries, float* out, const Split& split) {
  const Units u = units(config);
  const size_t floats = unit_floats(u, block.tokens, block.stride);
  float* room = scratch<float>(Scratch::kScores, u.count * floats);
  if (!room) return threads.lack_memory();
  size_t first = SIZE_MAX, end = 0;
  for (size_t t = 0; t < block.tokens; ++t) {
    first = std::min(first, block.paths[t].first);
    end = std::max(end, block.paths[t].end);
  }
  const size_t chunks = (end - first + split.keys - 1) / split.keys;
  auto score = [&](size_t task) {
    const size_t i0 = first + task % chunks * split.keys, unit = task / chunks;
    row.score(config, cache, length, of_unit(block, u, unit, room + unit * floats), queries, i0, i0 + split.keys);
  };
  const size_t most = block.tokens * u.step;
  auto weigh = [&](size_t task) {
    const Block b = of_unit(block, u, task / most, room + task / most * floats);
    if (task % most < b.queries()) row.weigh(config, b, task % most, task % most + 1);
  };
  const size_t strips = (config.dim + split.columns - 1) / split.columns;
  auto gather = [&](size_t task) {
    const size_t c0 = task % strips * split.columns, unit = task / strips;
    row.gather(config, cache, length, of_unit(block, u, unit, room + unit * floats), out, c0,
               std::min(config.dim, c0 + split.columns));
  };
  SharedPieces scores(u.count * chunks), weights(u.count * most), values(u.count * strips);
  auto all = [&](size_t) {
    scores.finish(score);
    weights.finish(weigh);
    values.finish(gather);
  };
  parallel_for(threads, u.count * std::max(chunks, strips), all);
}

}  // namespace

Split split_for(const Config& config, const Pass& pass) {
  const Units u = units(config);
  const size_t by_queries = std::max<size_t>(1, kMostQueries / u.group), stride = score_stride(config, pass);
  const size_t blocks = (pass.computed() + by_queries - 1) / by_queries;
  if (blocks * u.count < kEnoughBlocks && stride * config.kv_heads * config.dim * 4 >= kWorthSplitting)
    return {by_queries, std::max<size_t>(1, kKeyBytes / 2 / config.dim / 16) * 16,
            config.dim > kColumns ? kColumns : kColumns / 2};
  const size_t by_scores = kScoreFloats / std::max<size_t>(1, u.step * stride);
  return {std::max<size_t>(1, std::min(by_queries, by_scores)), 0, 0};
}

void attend(const Row& row, Parallel& threads, const Config& config, const Cache& cache, const Pass& pass,
            const float* queries, float* out, const Split& split, const Looked& looked) {
  if (!split.keys || looked.weights)
    return whole_blocks(row, threads, config, cache, pass, queries, out, split.tokens, looked);
  for (size_t m0 = 0; m0 < pass.computed(); m0 += split.tokens) {
    const size_t n = std::min(split.tokens, pass.computed() - m0);
    auto* chains = scratch<int32_t>(Scratch::kPaths, n * pass.tokens);
    if (!chains) return threads.lack_memory();
    split_block(row, threads, config, cache, pass.length, block_at(config, pass, m0, n, chains), queries, out, split);
  }
}

bool lay_out(const Config& config, uint16_t* first, size_t capacity, size_t row, Cache* cache) {
  const bool int8 = row != Halves::row(config.dim);
  if (int8 && row != Int8s::row(config.dim)) return false;
  const size_t head_stride = capacity * row;
  *cache = {first, first + config.kv_heads * head_stride, capacity, head_stride, row, int8};
  return true;
}

namespace {

const char* no_room(const Config& config, const Pass& pass, size_t capacity) {
  if (pass.length <= capacity && pass.tokens <= capacity - pass.length) return nullptr;
  if (!config.ring || !config.window) return "the cache is too small: length + tokens exceeds its capacity";
  if (config.window - 1 > capacity || pass.tokens > capacity - (config.window - 1))
    return "the ring is too small: window - 1 + tokens exceeds its capacity";
  return pass.length > kMostSlots ? "length is not a possible number of tokens" : nullptr;
}

}  // namespace

const char* problem(const Config& config, const Pass& pass, size_t capacity) {
  if (!config.kv_heads || !config.heads || config.heads % config.kv_heads)
    return "num_heads must be a positive multiple of num_kv_heads";
  if (!config.dim || config.dim % 16) return "head_dim must be a positive multiple of 16";
  if (!(config.softcap >= 0.0f)) return "softcap must be 0 or more";
  if (const char* wrong = no_room(config, pass, capacity)) return wrong;
  return parents_problem(pass.parents, pass.tokens);
}

}  // namespace edgedec::tree_attention
