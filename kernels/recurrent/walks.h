// The steps of all sequences of a pass, in the scratch of the calling thread.
#pragma once

#include <algorithm>

#include "common/scratch.h"
#include "recurrent/steps.h"

namespace edgedec::recurrent {

// The walk of each job's sequence `one`, or null without memory; channels: numbers of a row that the convolution reads.
template <class Job>
const Walk* all_walks(const Job* jobs, size_t count, size_t taps, size_t channels) {
  size_t steps = 0;
  for (size_t i = 0; i < count; ++i) steps += steps_of(jobs[i].one);
  auto* walks = scratch<Walk>(Scratch::kWalks, count);
  auto* next = scratch<Step>(Scratch::kSteps, steps);
  auto* zeros = scratch<float>(Scratch::kZeros, channels);
  if (!walks || !next || !zeros) return nullptr;
  std::fill_n(zeros, channels, 0.0f);
  for (size_t i = 0; i < count; ++i) {
    walks[i] = walk(jobs[i].one, taps, zeros, next);
    next += walks[i].count;
  }
  return walks;
}

}  // namespace edgedec::recurrent
