// The rules of recurrent states: the tokens that they cover, and how far one can go back.
//
// A state covers the first `applied` tokens of its sequence, and the trail has the rows of those behind. A pass that starts
// at `start` first applies all rows before `start`. Behind a chain of more than `undone` tokens it applies the oldest of
// them, too, for the trail has no room for their rows. So a token can be taken back as long as it was not applied; before
// that there is a checkpoint, a copy of the state, and the empty one.
//
// Layers that keep a trail alone have nothing to apply: there `applied` is the first length that can be gone back to, which
// is as far as rows are there.
#pragma once

#include <cstdint>

#include "core/base/status.h"

namespace edgedec::engine {

// The tokens that the states of a sequence cover. Four whole numbers, which hosts keep, too.
struct StateBook {
  int64_t undone = 0;      // most tokens that can be taken back
  int64_t applies = 1;     // whether there are states beside the trails
  int64_t applied = 0;
  int64_t checkpoint = 0;  // tokens that the checkpoint covers; 0: it is the empty state

  // kUsage for a tree of more tokens than can be taken back.
  Status check(int64_t tokens, bool chain) const;
  // Records a pass; whether a checkpoint is worth its copy now: a prompt has been read.
  bool passed(int64_t start, int64_t tokens, bool chain);
  // The tokens that a rewind to `length` leaves.
  int64_t reachable(int64_t length) const;
  // Goes back to `length`, which is reachable.
  void rewind(int64_t length);
  // Records that a pass failed midway: only the checkpoint is reachable.
  void lose();
};

}  // namespace edgedec::engine
