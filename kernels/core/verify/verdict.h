// The decision of a verification.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/span.h"

namespace edgedec::engine {

// path: accepted nodes from the root down. tokens: theirs, and the one the target adds itself.
struct Verdict {
  std::vector<int> path;
  std::vector<int32_t> tokens;

  void clear() {
    path.clear();
    tokens.clear();
  }

  // Cuts behind the first token that is in `stop_ids`, and to at most `most` tokens.
  void until(Span<const int32_t> stop_ids, size_t most) {
    size_t count = most;
    for (size_t at = 0; at < tokens.size() && at < count; ++at)
      if (std::find(stop_ids.begin(), stop_ids.end(), tokens[at]) != stop_ids.end()) count = at + 1;
    if (count >= tokens.size()) return;
    tokens.resize(count);
    path.resize(std::min(count, path.size()));
  }
};

}  // namespace edgedec::engine
