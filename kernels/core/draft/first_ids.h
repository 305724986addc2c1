// The ids that the head of a layer for further tokens is trimmed to where nobody chose any.
#pragma once

#include <cstdint>

namespace edgedec::engine {

// The cost of a step of such a layer, in passes of the target: of the layer itself, and of a head with all ids.
struct LayerCost {
  double own = 0.0, head = 0.0;
  double with(int64_t ids, int64_t vocabulary) const {
    return own + head * static_cast<double>(ids) / static_cast<double>(vocabulary);
  }
};

// How many first ids of a large vocabulary pay most. They are its frequent ones: merges are learned in the order of how often
// they occur. 0 for a smaller one.
int64_t first_ids(const LayerCost& cost, int64_t vocabulary);

}  // namespace edgedec::engine
