// Parts that recurrent ops share: the trail of a sequence, and a pass as a list of steps.
//
// A trail is a ring with a row for each of a sequence's newest tokens: slot s is row s mod 32. A row holds what the
// recurrence needs of its token, the inputs of the convolution first. The state of a sequence covers its first
// `applied` tokens; the tokens of slots [applied, length) are applied from their rows. With `tail` = taps - 1, the rows of
// slots [applied - tail, applied - tail + 32) are there; rows before slot 0 are zeros.
//
// A pass over T tokens behind `length` others
//   commits  the tokens of slots [applied, length), and of a chain those below length + T - (32 - tail): each is a step
//            of the state, in place
//   tries    its other tokens: each is a step from its parent's state, in a copy. Token m without a parent in the pass
//            follows slot length - 1
//   writes   the rows of its tokens into the trail: of slots [length, length + T), the last 32
// So it leaves a state that covers max(length, length + T - (32 - tail)) tokens. A tree has at most 32 - tail tokens.
// A pass that fails may have committed some layers: its sequences must be fed again from the start.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model_spec.h"

namespace edgedec::recurrent {

constexpr size_t kTrailSlots = engine::kTrailSlots;
constexpr size_t kMostTaps = 8;

// A sequence of a pass. Rows of tokens begin with the inputs of the convolution, as rows of the trail do.
struct Sequence {
  const int64_t* parents;  // [tokens]
  size_t tokens, length, applied;
  float* trail;            // its 32 rows of `trail_row` numbers
  size_t trail_row;
  const float* tokens_at;  // its rows of `token_row` numbers
  size_t token_row;
};

// The error in the width of a convolution, in one line, or nullptr.
const char* taps_problem(size_t taps);

// The error in a sequence, in one line, or nullptr.
const char* problem(const Sequence& one, size_t taps);

constexpr int32_t kNone = -2, kState = -1;  // in place of a copy's number

struct Step {
  const float* rows[kMostTaps];  // what the convolution reads, the oldest first; the last one is the token's own
  int32_t token;                 // of the pass, or kNone for one in the trail
  bool follows;                  // its parent is the step before
  bool leaf;                     // no step begins from its state
  int32_t from;                  // where its parent's state is, where it does not follow: kState or a copy
  int32_t keep;                  // the copy that keeps its own state for steps that do not follow it, or kNone
};

// Steps in order: `committed` ones, then the tried ones.
struct Walk {
  Step* steps;
  size_t count, committed, copies;
};

// Steps that fit into one piece: of the committed ones kPiece at a time, the rest with all that are tried.
constexpr size_t kPiece = kTrailSlots;

// The number of steps of a sequence that has no problem.
inline size_t steps_of(const Sequence& one) { return one.length - one.applied + one.tokens; }

// Writes the steps; zeros: as many as the convolution reads of a row.
Walk walk(const Sequence& one, size_t taps, const float* zeros, Step* steps);

// The first of the slots, up to length + tokens, whose rows a pass writes.
inline size_t first_written(const Sequence& one) {
  return one.length + (one.tokens > kTrailSlots ? one.tokens - kTrailSlots : 0);
}

}  // namespace edgedec::recurrent
