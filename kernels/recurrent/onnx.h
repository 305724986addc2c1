// Inputs that recurrent ops share: projected, parents, length, applied, trail.
#pragma once

#include "common/sequences.h"
#include "ort/ops.h"
#include "recurrent/steps.h"

namespace edgedec::ort {

// The sequences of a pass, their trails and where their tokens are. Fails c and returns false where an input is wrong.
struct Recurrence {
  SequenceList list;
  std::vector<recurrent::Sequence> all;
  size_t tokens = 0, sequences = 0;  // sequences: those that the trail has room for

  bool read(Context& c, int64_t layer, size_t taps, size_t token_row, size_t trail_row);
};

}  // namespace edgedec::ort
