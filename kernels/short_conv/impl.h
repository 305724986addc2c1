// The columns of a strip, shared by the rows.
#pragma once

#include <cstring>

#include "recurrent/convolve.h"
#include "short_conv/short_conv.h"

namespace edgedec::short_conv {
namespace {

template <class V>
void strip(const Config& config, const float* conv, const Job& job, const recurrent::Walk& walk, size_t c0, size_t c1,
           float* room) {
  const size_t hidden = config.hidden, n = c1 - c0;
  const recurrent::Sequence& one = job.one;
  recurrent::transpose(conv + c0 * config.taps, n, config.taps, room);
  for (size_t m = 0; m < one.tokens; ++m)
    for (size_t c = c0; c < c1; c += kLanes) {
      const float* token = job.projected + m * 3 * hidden + c;
      V::mul(V::load(token), V::load(token + 2 * hidden)).store(job.products + m * hidden + c);
    }
  for (size_t i = 0; i < walk.count; ++i) {
    const recurrent::Step& step = walk.steps[i];
    if (step.token < 0) continue;
    const auto m = static_cast<size_t>(step.token);
    const float* gate = job.projected + (m * 3 + 1) * hidden + c0;
    float* out = job.out + m * hidden + c0;
    recurrent::convolve<V>(step.rows, c0, n, room, config.taps,
                           [&](size_t c, V y) { V::mul(V::load(gate + c), y).store(out + c); });
  }
  for (size_t slot = recurrent::first_written(one); slot < one.length + one.tokens; ++slot)
    std::memcpy(one.trail + slot % recurrent::kTrailSlots * one.trail_row + c0,
                job.products + (slot - one.length) * hidden + c0, n * sizeof(float));
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, strip<V>};
}

}  // namespace
}  // namespace edgedec::short_conv
