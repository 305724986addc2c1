// Passes of a model on the CPU that go on from peeks: edgedec/backends/onnx/peeked.py.
#pragma once

#include <vector>

#include "core/decode/forward.h"
#include "core/memory/cache_book.h"
#include "engine/web/cpu_model.h"
#include "engine/web/edgedec_web.h"

namespace edgedec::engine {

class CpuPasses {
 public:
  explicit CpuPasses(CpuModel& model) : model_(model) {}

  CpuModel& model() { return model_; }
  Span<const int32_t> peeked() const { return peeked_; }
  bool follows(LayerSubset layers) const { return layers.exit == layers_.exit && layers.resume == layers_.resume; }

  // Runs some layers over `tokens`, which follow those that were peeked; `placed` has all of them. `pass` describes the rows
  // that are wanted, counted from the first of `tokens`, and where their results go.
  Status peek(const PlannedPass& placed, Span<const int32_t> tokens, LayerSubset layers, CpuPass pass);
  // Computes a pass as it is described, with its copies and checkpoints. `hidden` takes the outputs of the layers `taps`.
  Status run(const edgedec_web_pass& pass, Span<const int> taps, Span<const int64_t> keep, std::vector<float>* hidden);
  // Forgets what was peeked.
  void forget();

 private:
  size_t shared(const edgedec_web_pass& pass) const;
  void follow(const edgedec_web_pass& pass);
  void join(size_t done, size_t tokens, Span<const int> taps, std::vector<float>* hidden) const;

  CpuModel& model_;
  std::vector<int64_t> positions_, parents_;
  // All peeked tokens, the layers that they went through, and the outputs of some of these.
  std::vector<int32_t> peeked_;
  LayerSubset layers_;
  LayerStates below_, outs_;
  std::vector<int> tapped_;  // layers whose outputs the latest pass returned
};

}  // namespace edgedec::engine
