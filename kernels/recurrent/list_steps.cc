#include "recurrent/list_steps.h"

#include "common/scratch.h"

namespace edgedec::recurrent {
namespace {

// The same sequence with rows of one number each, which stand in for its own: the trail's, then the tokens'.
Sequence stand_in(const Walked& one, float* rows) {
  return {one.parents, one.tokens, one.length, one.applied, rows, 1, rows + kTrailSlots, 1};
}

uint32_t copy_number(int32_t copy) { return copy < 0 ? kNoCopy : static_cast<uint32_t>(copy); }

}  // namespace

const char* listing_problem(const Walked& one, size_t taps) {
  if (const char* wrong = taps_problem(taps)) return wrong;
  return problem(stand_in(one, nullptr), taps);
}

bool list_steps(const Walked& one, size_t taps, uint32_t* to) {
  const size_t zeros = kTrailSlots + one.tokens;
  auto* rows = scratch<float>(Scratch::kZeros, zeros + 1);
  auto* steps = scratch<Step>(Scratch::kSteps, one.length - one.applied + one.tokens);
  if (!rows || !steps) return false;
  const Walk made = walk(stand_in(one, rows), taps, rows + zeros, steps);
  for (size_t i = 0; i < made.count; ++i, to += kStepWords) {
    const Step& step = steps[i];
    to[0] = (step.follows ? kFollows : 0) | (step.leaf ? kLeaf : 0) | (i + 1 == made.committed ? kSettles : 0);
    to[1] = copy_number(step.from);
    to[2] = copy_number(step.keep);
    to[3] = copy_number(step.token);
    for (size_t tap = 0; tap < kMostTaps; ++tap)
      to[4 + tap] = static_cast<uint32_t>(tap < taps ? step.rows[tap] - rows : zeros);
  }
  return true;
}

}  // namespace edgedec::recurrent
