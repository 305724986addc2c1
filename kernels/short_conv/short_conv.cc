// Shares out columns over threads; the same for all instruction sets.
#include "short_conv/short_conv.h"

#include <algorithm>

#include "recurrent/walks.h"

namespace edgedec::short_conv {
namespace {

constexpr size_t kStrip = 256;             // columns of a task
constexpr size_t kWorthSharing = 1 << 16;  // elements: a second thread joins after microseconds
constexpr size_t kMostHidden = 1 << 20;

}  // namespace

void run(const Row& row, Parallel& threads, const Config& config, const float* conv, const Job* jobs, size_t count) {
  const recurrent::Walk* walks = recurrent::all_walks(jobs, count, config.taps, config.hidden);
  if (!walks) return threads.lack_memory();
  const size_t strips = (config.hidden + kStrip - 1) / kStrip;
  auto strip = [&](size_t task) {
    const size_t c0 = task % strips * kStrip, c1 = std::min(config.hidden, c0 + kStrip);
    float* room = scratch<float>(Scratch::kRecurrence, (c1 - c0) * config.taps);
    if (!room) return threads.lack_memory();
    row.strip(config, conv, jobs[task / strips], walks[task / strips], c0, c1, room);
  };
  size_t tokens = 0;
  for (size_t i = 0; i < count; ++i) tokens += jobs[i].one.tokens;
  if (tokens * config.hidden >= kWorthSharing) return parallel_for(threads, count * strips, strip);
  for (size_t task = 0; task < count * strips; ++task) strip(task);
}

const char* problem(const Config& config) {
  if (!config.hidden || config.hidden % 16 || config.hidden > kMostHidden) return "hidden must be a multiple of 16";
  return recurrent::taps_problem(config.taps);
}

}  // namespace edgedec::short_conv
