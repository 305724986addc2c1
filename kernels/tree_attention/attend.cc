// Splits a pass over threads and checks its arguments; the same for all instruction sets.
#include <algorithm>

#include "common/sequences.h"
#include "tree_attention/elements.h"
#include "tree_attention/int8_rows.h"
#include "tree_attention/paths.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kEnoughTasks = 16;        // to keep all threads busy
constexpr size_t kPlannedQueries = 24;     // of each thread, whose scores of a whole context the memory plan counts
constexpr size_t kWorthSplitting = 1 << 19;  // bytes of fp16 keys and values: tens of microseconds
constexpr size_t kKeyBytes = 64 << 10;     // of a piece
constexpr size_t kColumns = 64;            // of a piece: cache lines of every value; one takes a tenth longer
constexpr size_t kLeastColumns = kMixed;   // what int8 values are mixed in
constexpr size_t kMostSlots = INT32_MAX;   // longer than any context; sums of two do not wrap around

size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

// The query heads of a kv head, split into units that a block can take.
struct Units {
  size_t group, step, per_kv_head, count;
};

Units units(const Config& config) {
  const size_t group = config.heads / config.kv_heads, step = std::min(group, kPlannedQueries);
  const size_t per_kv_head = ceil_div(group, step);
  return {group, step, per_kv_head, per_kv_head * config.kv_heads};
}

// Room for the scores of so many path indices: an odd multiple of 64, so that blocks of 64 of all queries lie apart in the
// first-level cache. Rows a multiple of 4 KB apart would push each other out, and took 1.27 times as long.
size_t apart(size_t scores) { return (scores + 63) / 128 * 128 + 64; }

size_t score_stride(const Config& config, const Passes& passes) {
  size_t most = 0;
  for (size_t i = 0; i < passes.count; ++i) most = std::max(most, passes.all[i].length + passes.all[i].tokens);
  return apart(config.window && config.window < most ? config.window : most);
}

size_t longest(const Passes& passes) {
  size_t most = 0;
  for (size_t i = 0; i < passes.count; ++i) most = std::max(most, passes.all[i].tokens);
  return most;
}

// Passes cut into tasks: blocks of tokens, each for every unit. Tasks of a unit, which read the same keys, follow each other.
struct Tasks {
  Tasks(const Config& c, const Passes& p, size_t most, const byte_products::Row* bytes)
      : config(c), passes(p), bytes(bytes), u(units(c)), tokens(std::min(most, p.computed())), stride(score_stride(c, p)),
        blocks(tokens ? ceil_div(p.computed(), tokens) : 0), chain(longest(p)) {}

  size_t count() const { return blocks * u.count; }
  size_t floats() const { return tokens * u.step * stride + kMostQueries; }  // scores and sums of a task
  size_t entries() const { return tokens * chain; }                          // of its chains

  // Task i, with room for its chains and floats.
  Block block(size_t i, int32_t* chains, float* room) const {
    Block b{};
    b.m0 = i % blocks * tokens;
    b.tokens = std::min(tokens, passes.computed() - b.m0);
    b.stride = stride;
    b.bytes = bytes;
    b.common_end = common_of(b, chains, b.paths);
    for (size_t t = 0; t < b.tokens; ++t) b.common_first = std::max(b.common_first, b.paths[t].first);
    const size_t unit = i / blocks;
    b.h0 = unit / u.per_kv_head * u.group + unit % u.per_kv_head * u.step;
    b.h1 = std::min(b.h0 + u.step, (unit / u.per_kv_head + 1) * u.group);
    b.scores = room;
    b.sums = room + tokens * u.step * stride;
    b.sinks = passes.all[0].sinks ? passes.all[0].sinks + b.h0 : nullptr;
    return b;
  }

  // Finds the paths of a block; returns the end of the indices that all its tokens share: of several sequences, those
  // that are lent to all but the one that owns them.
  size_t common_of(const Block& b, int32_t* chains, Path* paths) const {
    size_t found = 0, before = 0, common = SIZE_MAX;
    for (size_t i = 0; i < passes.count && found < b.tokens; ++i) {
      const Pass& pass = passes.all[i];
      const size_t end = before + pass.computed();
      if (b.m0 + found < end) {
        const size_t m = b.m0 + found - before, n = std::min(b.tokens - found, end - b.m0 - found);
        const size_t same = pass.length + find_paths(config, pass, pass.first + m, n, chains, paths + found);
        if (n == b.tokens) return same;
        common = std::min(common, pass.lent ? pass.lent : pass.length);
        chains += n * pass.tokens, found += n;
      }
      before = end;
    }
    return common;
  }

  const Config& config;
  Passes passes;
  const byte_products::Row* bytes;
  Units u;
  size_t tokens, stride, blocks, chain;
};

// What all tasks of a pass read and write.
struct Job {
  const Row& row;
  Parallel& threads;
  const Cache& cache;
  const float* queries;
  float* out;
};

// Raises the weights of a kv head to those of one of its blocks. The order of blocks does not change the bits: a
// maximum does not round, and with NaN it is the other number.
void look(const Cache& cache, const Block& b, float* most) {
  for (size_t q = 0; q < b.queries(); ++q) {
    const Path& path = b.paths[q / b.heads()];
    const float *scores = b.scores + q * b.stride, sum = b.sums[q];
    for_runs(path, cache.capacity, path.first, path.end, [&](size_t slot, size_t index, size_t n) {
      const float* p = scores + (index - path.first);
      for (size_t j = 0; j < n; ++j) {
        const float weight = p[j] / sum;
        most[slot + j] = weight > most[slot + j] ? weight : most[slot + j];
      }
    });
  }
}

// Computes a task on this thread. most: the weights of its kv head to raise, or null.
void whole_task(const Job& job, const Tasks& tasks, size_t i, float* most) {
  auto* chains = scratch<int32_t>(Scratch::kPaths, tasks.entries());
  auto* room = scratch<float>(Scratch::kScores, tasks.floats());
  if (!chains || !room) return job.threads.lack_memory();
  const Block b = tasks.block(i, chains, room);
  job.row.attend(tasks.config, job.cache, b, job.queries, job.out);
  if (most) look(job.cache, b, most);
}

// All tasks of a kv head are one, since they write the same weights.
void looked_tasks(const Job& job, const Tasks& tasks, const Looked& looked) {
  const Units& u = tasks.u;
  auto kv_head = [&](size_t head) {
    float* most = looked.weights + head * looked.stride;
    std::fill_n(most, tasks.passes.all[0].length + tasks.passes.all[0].tokens, 0.0f);
    const size_t each = tasks.blocks * u.per_kv_head;
    for (size_t i = 0; i < each; ++i) whole_task(job, tasks, head * each + i, most);
  };
  parallel_for(job.threads, tasks.config.kv_heads, kv_head);
}

// Tasks that all threads share, step by step.
struct Shared {
  Block blocks[kEnoughTasks];
  size_t count, first, end;  // path indices of all of them: [first, end)
};

bool find_shared(const Tasks& tasks, size_t first, size_t last, Shared* shared) {
  shared->count = last - first, shared->first = SIZE_MAX, shared->end = 0;
  auto* chains = scratch<int32_t>(Scratch::kPaths, shared->count * tasks.entries());
  auto* room = scratch<float>(Scratch::kScores, shared->count * tasks.floats());
  if (!chains || !room) return false;
  for (size_t i = 0; i < shared->count; ++i) {
    const Block& b = shared->blocks[i] = tasks.block(first + i, chains + i * tasks.entries(), room + i * tasks.floats());
    for (size_t t = 0; t < b.tokens; ++t) {
      shared->first = std::min(shared->first, b.paths[t].first);
      shared->end = std::max(shared->end, b.paths[t].end);
    }
  }
  return true;
}

// Elements of a piece of values: as many pieces as threads, where that leaves whole cache lines.
size_t columns_of(const Split& split, size_t dim, size_t tasks, size_t width) {
  const size_t strips = std::max<size_t>(1, ceil_div(width, tasks));
  const size_t fair = std::max(kLeastColumns, ceil_div(ceil_div(dim, strips), kLeastColumns) * kLeastColumns);
  return ceil_div(std::min(split.columns, fair), kLeastColumns) * kLeastColumns;
}

// All threads share tasks [first, last). Pieces of a task follow each other, so that a thread, which begins with its own
// part of them (team.h), finds scores in its cache that it wrote itself.
void shared_tasks(const Job& job, const Tasks& tasks, size_t first, size_t last, const Split& split) {
  const Config& config = tasks.config;
  Shared shared;
  if (!find_shared(tasks, first, last, &shared)) return job.threads.lack_memory();
  const size_t chunks = ceil_div(shared.end - shared.first, split.keys);
  auto score = [&](size_t piece) {
    const size_t i0 = shared.first + piece % chunks * split.keys;
    job.row.score(config, job.cache, shared.blocks[piece / chunks], job.queries, i0, i0 + split.keys);
  };
  const size_t most = tasks.tokens * tasks.u.step;
  auto weigh = [&](size_t piece) {
    const Block& b = shared.blocks[piece / most];
    if (piece % most < b.queries()) job.row.weigh(config, b, piece % most, piece % most + 1);
  };
  const size_t columns = columns_of(split, config.dim, shared.count, job.threads.width());
  const size_t strips = ceil_div(config.dim, columns);
  auto gather = [&](size_t piece) {
    const size_t c0 = piece % strips * columns;
    job.row.gather(config, job.cache, shared.blocks[piece / strips], job.out, c0, std::min(config.dim, c0 + columns));
  };
  parallel_for(job.threads, shared.count * chunks, score);
  parallel_for(job.threads, shared.count * most, weigh);
  parallel_for(job.threads, shared.count * strips, gather);
}

// The most tokens of a block: as many as the split has, or fewer where scores would take more room than was planned, since much
// of the cache is filled.
size_t most_tokens(const Config& config, const Passes& passes, const Split& split, size_t capacity) {
  const size_t queries = kPlannedQueries * apart(capacity) / score_stride(config, passes);
  return std::max<size_t>(1, std::min(split.tokens, queries / units(config).step));
}

// Tokens of a block: nearly as many as of the others. Where there would be few tasks, blocks are smaller, so that each thread gets
// as many as the others; not much smaller where threads could share them.
size_t tokens_of(const Config& config, const Passes& passes, size_t most, bool shared, size_t width) {
  const size_t all = passes.computed(), each = units(config).count, fewest = ceil_div(all, most);
  const size_t even = all ? ceil_div(all, fewest) : most, least = shared ? ceil_div(most, 4) : 1;
  if (!all || width < 2 || fewest * each >= kEnoughTasks) return even;
  for (size_t tokens = even; tokens >= least; --tokens)
    if (ceil_div(all, tokens) * each % width == 0) return ceil_div(all, ceil_div(all, tokens));
  return even;
}

}  // namespace

size_t Passes::computed() const {
  size_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += all[i].computed();
  return sum;
}

Split split_for(const Config& config, const Passes& passes) {
  const size_t tokens = std::max<size_t>(1, kMostQueries / (config.heads / config.kv_heads));
  const Tasks tasks(config, passes, tokens, nullptr);
  if (tasks.count() >= kEnoughTasks || tasks.stride * config.kv_heads * config.dim * 4 < kWorthSplitting)
    return {tokens, 0, 0};
  return {tokens, std::max<size_t>(1, kKeyBytes / 2 / config.dim / 16) * 16,
          config.dim > kColumns ? kColumns : kLeastColumns};
}

void attend(const Kernels& kernels, Parallel& threads, const Config& config, const Cache& cache, const Passes& passes,
            const float* queries, float* out, const Split& split, const Looked& looked) {
  const size_t most = most_tokens(config, passes, split, cache.capacity);
  const Tasks tasks(config, passes, looked.weights ? most : tokens_of(config, passes, most, split.keys > 0, threads.width()),
                    kernels.bytes);
  const Job job = {*kernels.floats, threads, cache, queries, out};
  if (looked.weights) return looked_tasks(job, tasks, looked);
  // A thread with a task of its own shares nothing; only the tasks that are left over are worth sharing.
  const size_t width = threads.width(), count = tasks.count();
  const size_t whole = !split.keys ? count : width ? count - count % width : 0;
  auto one = [&](size_t i) { whole_task(job, tasks, i, nullptr); };
  if (whole) parallel_for(threads, whole, one);
  // No more scores at a time than a task for each thread has, which is what the memory plan counts.
  const size_t together = width && !whole ? std::min(count, kEnoughTasks) : 1;
  for (size_t i = whole; i < count; i += together) shared_tasks(job, tasks, i, std::min(count, i + together), split);
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
