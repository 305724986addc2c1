#include "core/memory/expert_room.h"

#include <algorithm>

namespace edgedec::engine {

ExpertRoom expert_room(const Experts& experts, int64_t weights, const MemoryLeft& left) {
  const bool known = left.machine >= 0, limited = left.budget >= 0;
  const int64_t beside = left.beside + kBesideWeights;
  const int64_t room = known && limited ? std::min(left.budget, left.machine) : std::max(left.budget, left.machine);
  if (room < 0 || room - beside >= weights) return {};
  ExpertRoom found = {true, known && left.machine < weights, experts.least(), experts.total()};
  if (known) {
    const int64_t fit = (left.machine - beside - (weights - experts.nbytes)) / experts.slot_bytes;
    found.most = std::clamp(fit, experts.least(), experts.total());
  }
  if (!limited) found.slots = found.most;
  return found;
}

}  // namespace edgedec::engine
