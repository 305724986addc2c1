// Predictions of a small graph that goes on from its own states.
#pragma once

#include <vector>

#include "core/rows.h"

namespace edgedec::engine {

// The rows asked for, and for each of them the state behind its token: that of a drafted token that follows.
struct HeadPass {
  HeadRows rows;
  std::vector<float> states;  // [rows, numbers of a state]
};

}  // namespace edgedec::engine
