// cpu.json: the ops of model.onnx as plain data, for an engine without ONNX Runtime. edgedec/export/web/cpu.py writes it.
//
//   {"format": "edgedec-cpu", "version": 1,
//    "tensors": {name: [offset, bytes] in weights.bin, ..}, "constants": {name: [bits of float32, ..], ..},
//    "nodes": [{"op": .., "in": [names, "" for none], "out": name, attributes as those of the op in model.onnx}, ..]}
//
// Nodes stand in the order in which they run. The names that a pass gives are `tokens`, `positions`, `parents`, `rows`. These
// nodes are none of model.onnx: Columns takes the `part` of `parts` of a row, Scale multiplies by one number, and FromFirst
// leaves out the tokens before the first of the rows. RMSNorm norms `cols` columns together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "gated_delta/gated_delta.h"
#include "gated_mlp/gated_mlp.h"
#include "packing/formats.h"
#include "short_conv/short_conv.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::engine {

enum class CpuOp {
  kEmbedding, kRotary, kNorm, kLinear, kMlp, kProduct, kAttention, kShortConv, kGatedDelta, kColumns, kScale, kFromFirst,
  kGather, kHead
};

// The tokens over which a node runs: all, those from the first chosen one on, or the chosen ones.
enum class CpuRows { kAll, kFromFirst, kChosen };

// A node, checked: its weights lie inside of the file, and its inputs have the sizes that it needs.
struct CpuNode {
  CpuOp op;
  int out = -1;                       // value that it writes; none: the head
  int in = -1, other = -1, rotary = -1;  // values that it reads; -1: none
  CpuRows over = CpuRows::kAll;
  CpuRows from = CpuRows::kAll;  // of the value that it reads; kGather
  std::vector<Weight> weights;
  const float* floats[4] = {};  // bias; norm; norms of heads; frequencies; factor; convolution, decay, dt_bias, norm
  size_t width = 0;             // floats of a row that it writes
  size_t cols = 0, first = 0;   // columns that are normed together; the first of those taken, and of how many
  int terms = 1, k = 0;
  bool refine = false;
  float scale = 1.0f, epsilon = 0.0f, softcap = 0.0f;
  gated_mlp::Activation activation = gated_mlp::Activation::kSilu;
  tree_attention::Config attention = {};
  short_conv::Config conv = {};
  gated_delta::Config delta = {};
  size_t kind = 0, layer = 0;  // of the keys, or of the states
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
