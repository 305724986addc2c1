#include "engine/model/layer_states.h"

#include <algorithm>

namespace edgedec::engine {

std::array<int, kUsualTaps> usual_taps(int64_t layers) {
  std::array<int, kUsualTaps> found;
  const int64_t wanted[] = {2, layers / 2, layers - 3};
  for (size_t at = 0; at < found.size(); ++at) found[at] = static_cast<int>(std::min(std::max<int64_t>(wanted[at], 0), layers - 1));
  std::sort(found.begin(), found.end());
  return found;
}

void LayerStates::clear() {
  layers.clear();
  for (std::vector<float>& one : rows) one.clear();
}

const std::vector<float>* LayerStates::of(int layer) const {
  const auto found = std::find(layers.begin(), layers.end(), layer);
  return found == layers.end() ? nullptr : &rows[static_cast<size_t>(found - layers.begin())];
}

size_t LayerStates::bytes() const {
  size_t sum = 0;
  for (const std::vector<float>& one : rows) sum += one.capacity() * sizeof(float);
  return sum;
}

}  // namespace edgedec::engine
