// cpu.json: the ops of model.onnx as plain data, for an engine without ONNX Runtime. edgedec/export/web/cpu.py writes it.
//
//   {"format": "edgedec-cpu", "version": 1,
//    "tensors": {name: [offset, bytes] in weights.bin, ..}, "constants": {name: [bits of float32, ..], ..},
//    "nodes": [{"op": .., "in": [names, "" for none], "out": name, attributes as those of the op in model.onnx}, ..]}
//
// Nodes stand in the order in which they run. The names that a pass gives are `tokens`, `positions`, `parents`, `rows`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "gated_mlp/gated_mlp.h"
#include "packing/formats.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::engine {

enum class CpuOp { kEmbedding, kRotary, kNorm, kLinear, kMlp, kAttention, kGather, kHead };

// A node, checked: its weights lie inside of the file, and its inputs have the sizes that it needs.
struct CpuNode {
  CpuOp op;
  int out = -1;                       // value that it writes; none: the head
  int in = -1, residual = -1, rotary = -1;  // values that it reads; -1: none
  bool by_row = false;                // whether it runs over the chosen rows and not over all tokens
  std::vector<Weight> weights;
  const float* floats[2] = {nullptr, nullptr};  // bias; norm; norms of heads; frequencies
  size_t width = 0;                   // floats of a row that it writes
  int terms = 1, k = 0;
  bool refine = false;
  float scale = 1.0f, epsilon = 0.0f, softcap = 0.0f;
  gated_mlp::Activation activation = gated_mlp::Activation::kSilu;
  tree_attention::Config attention = {};
  size_t layer = 0;
};

// The program of a model. `values` are the widths of buffers, some of which serve several values one after the other.
struct CpuProgram {
  std::vector<CpuNode> nodes;
  std::vector<size_t> buffers;
  std::vector<std::vector<float>> constants;

  // `weights`: the contents of weights.bin, which stay where they are. kBadFile.
  static Status read(std::string_view text, Span<const uint8_t> weights, const ModelSpec& spec, CpuProgram* program);
};

}  // namespace edgedec::engine
