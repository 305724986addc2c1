// Outputs of layers, which drafters read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgedec::engine {

// Outputs of layers, [tokens, hidden size] each: of those tokens of a pass that went through the layer.
struct LayerStates {
  std::vector<int> layers;
  std::vector<std::vector<float>> rows;  // by the place of a layer

  void clear();
  // The output of `layer`, or null.
  const std::vector<float>* of(int layer) const;
  size_t bytes() const;
};

constexpr size_t kUsualTaps = 3;

// Layers, ascending, whose outputs are a model's hidden states where a drafter does not say others.
std::array<int, kUsualTaps> usual_taps(int64_t layers);

}  // namespace edgedec::engine
