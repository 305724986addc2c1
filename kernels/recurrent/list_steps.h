// The steps of a pass as plain numbers, for devices that walk by themselves.
#pragma once

#include "recurrent/steps.h"

namespace edgedec::recurrent {

constexpr size_t kStepWords = 4 + kMostTaps;
constexpr uint32_t kNoCopy = 0xffffffff;
// Flags of a step: it follows the step before; no step begins from its state; it is the last committed one.
constexpr uint32_t kFollows = 1, kLeaf = 2, kSettles = 4;

// The steps of a sequence that lies elsewhere.
struct Walked {
  const int64_t* parents;  // [tokens]
  size_t tokens, length, applied;
};

// The error in a sequence, in one line, or nullptr.
const char* listing_problem(const Walked& one, size_t taps);

// Writes length - applied + tokens steps of a sequence without a problem to to[steps][kStepWords], and returns whether there
// was memory for it. Of each step
//   0       its flags
//   1       the copy that its parent's state is in, or kNoCopy: it is the sequence's state
//   2       the copy that keeps its own state, or kNoCopy
//   3       its token, or kNoCopy for one in the trail
//   4 + tap the row that the convolution reads: below 32 one of the trail, 32 + m that of token m, from 32 + tokens on zeros
bool list_steps(const Walked& one, size_t taps, uint32_t* to);

}  // namespace edgedec::recurrent
