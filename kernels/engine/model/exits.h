// The exits and hidden states of drafting.onnx, as it states them itself: edgedec/backends/onnx/exits.py and
// edgedec/bundle/exits.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

// Outputs of layers, [tokens, hidden size] each: of those tokens of a pass that went through the layer.
struct LayerStates {
  Span<const int> layers;
  std::vector<std::vector<float>> rows;  // by the place of a layer

  void clear();
  // The output of `layer`, or null.
  const std::vector<float>* of(int layer) const;
  size_t bytes() const;
};

struct Exits {
  std::vector<int> exits;  // numbers of layers, the last of them all; none: the graph has no exits
  std::vector<int> taps;   // layers of the hidden states
  int64_t hidden_size = 0;

  // Numbers of a token's hidden states.
  int64_t hidden() const { return static_cast<int64_t>(taps.size()) * hidden_size; }
  bool has(int exit) const;
  // Layers, ascending, whose outputs a pass has to return: that ends after `exit` layers, so that another one can take them
  // over, or after all (0), for its hidden states.
  Span<const int> states(int exit) const;
  // Sums up what the three above say.
  void settle();

  static std::string out(int layer);
  static std::string rows(int exit);
  static std::string passing(int exit);
  static std::string warm(int exit);

 private:
  std::vector<std::vector<int>> below_;  // by the place of an exit; the last is that of the hidden states
};

// Finds the exits of a session over drafting.onnx. kBadFile unless it has the inputs and outputs of its exits and of the
// model of the manifest.
Status read_exits(const Runtime& runtime, const OrtSession* session, const ModelSpec& spec, Exits* exits);

}  // namespace edgedec::engine
