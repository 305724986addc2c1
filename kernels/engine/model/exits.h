// The exits and hidden states of drafting.onnx, as it states them itself: edgedec/backends/onnx/exits.py and
// edgedec/bundle/exits.py.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "engine/model/layer_states.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

struct Exits {
  std::vector<int> exits;  // numbers of layers, the last of them all; none: the graph has no exits
  std::vector<int> taps;   // layers, ascending, whose outputs are to be had
  int64_t hidden_size = 0;

  // Numbers of a token's hidden states, and layers whose outputs a pass holds, as plans count them.
  int64_t hidden() const { return taps.empty() ? 0 : kUsualTaps * hidden_size; }
  int64_t held() const { return held_; }
  bool has(int exit) const;

  static std::string out(int layer);
  static std::string rows(int exit);
  static std::string passing(int exit);
  static std::string warm(int exit);

 private:
  friend Status read_exits(const Runtime&, const OrtSession*, const ModelSpec&, Span<const int>, Exits*);
  int64_t held_ = 0;
};

// Finds the exits of a session over drafting.onnx. `taps`: further layers whose outputs are to be had, as far as it has them.
// kBadFile unless it has the inputs and outputs of its exits and of the model of the manifest.
Status read_exits(const Runtime& runtime, const OrtSession* session, const ModelSpec& spec, Span<const int> taps, Exits* exits);

}  // namespace edgedec::engine
