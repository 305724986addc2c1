// Shares out heads over threads, and writes the trail; the same for all instruction sets.
#include "gated_delta/gated_delta.h"

#include <cstring>

#include "gated_delta/ingredients.h"
#include "recurrent/walks.h"

namespace edgedec::gated_delta {
namespace {

constexpr size_t kMostSize = 1 << 16;        // of a dimension: products of three do not wrap around
constexpr size_t kWorthSharing = 1 << 16;    // elements of states times steps: a second thread joins after microseconds

void write_trail(const Config& config, const recurrent::Sequence& one) {
  const size_t end = one.length + one.tokens;
  for (size_t slot = recurrent::first_written(one); slot < end; ++slot) {
    const float* token = one.tokens_at + (slot - one.length) * one.token_row;
    float* row = one.trail + slot % recurrent::kTrailSlots * one.trail_row;
    std::memcpy(row, token, config.channels() * sizeof(float));
    std::memcpy(row + config.channels(), token + config.channels() + config.values(), 2 * config.v_heads * sizeof(float));
  }
}

}  // namespace

size_t room_of(const Row& row, const Config& config, size_t copies) {
  return ingredient_floats(config) + (1 + copies) * config.k_dim * row.columns;
}

void run(const Row& row, Parallel& threads, const Config& config, const Weights& weights, const Job* jobs, size_t count) {
  const recurrent::Walk* walks = recurrent::all_walks(jobs, count, config.taps, config.channels());
  if (!walks) return threads.lack_memory();
  auto head = [&](size_t task) {
    const size_t h = task % config.v_heads;
    const recurrent::Walk& walk = walks[task / config.v_heads];
    const Job& job = jobs[task / config.v_heads];
    float* room = scratch<float>(Scratch::kRecurrence, room_of(row, config, walk.copies));
    if (!room) return threads.lack_memory();
    row.head(config, weights, job.one, walk, h, job.state + h * config.k_dim * config.v_dim, job.out, room);
  };
  const size_t tasks = count * config.v_heads;
  size_t steps = 0;
  for (size_t i = 0; i < count; ++i) steps += walks[i].count;
  if (steps * config.state() < kWorthSharing)
    for (size_t task = 0; task < tasks; ++task) head(task);
  else
    parallel_for(threads, tasks, head);
  // After all heads: they read the rows that these take the place of.
  for (size_t i = 0; i < count; ++i) write_trail(config, jobs[i].one);
}

const char* problem(const Config& config) {
  for (size_t size : {config.k_heads, config.v_heads, config.k_dim, config.v_dim})
    if (!size || size > kMostSize) return "heads and their sizes must be 1 to 65536";
  if (config.v_heads % config.k_heads) return "v_heads must be a multiple of k_heads";
  if (config.k_dim % kLanes || config.v_dim % kLanes) return "k_dim and v_dim must be multiples of 16";
  return recurrent::taps_problem(config.taps);
}

}  // namespace edgedec::gated_delta
