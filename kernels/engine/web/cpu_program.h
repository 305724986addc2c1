// cpu.json: the ops of a graph as plain data, for an engine without ONNX Runtime. edgedec/export/web/cpu.py writes it.
//
//   {"format": "edgedec-cpu", "version": 1,
//    "tensors": {name: [offset, bytes] in weights.bin, ..}, "shared": {name: the same in the target's weights.bin, ..},
//    "constants": {name: [bits of float32, ..], ..}, "exits": [numbers of layers, ..],
//    "nodes": [{"op": .., "in": [names, "" for none], "out": name, attributes as those of the op in the graph}, ..]}
//
// Nodes stand in the order in which they run. The names that a pass gives are `tokens`, `positions`, `parents`, `rows`, `keep`.
// These nodes are none of the graph: Columns takes the `part` of `parts` of a row, Scale multiplies by one number, FromFirst
// leaves out the tokens before the first of the rows, Beside puts two rows side by side. RMSNorm norms `cols` columns together.
//
// A drafter's program begins with Taps, hidden states of the target for committed tokens. WithStates adds rows of states that
// drafted tokens go on from; `out` is the state behind a token. Nearest finds the `chosen` clusters whose rows a head computes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "experts/experts.h"
#include "gated_delta/gated_delta.h"
#include "gated_mlp/gated_mlp.h"
#include "packing/formats.h"
#include "short_conv/short_conv.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::engine {

enum class CpuOp {
  kEmbedding, kRotary, kNorm, kLinear, kMlp, kProduct, kAttention, kShortConv, kGatedDelta, kColumns, kScale, kFromFirst,
  kExperts, kTaps, kWithStates, kBeside, kAdd, kNearest, kGather, kHead
};

// The tokens over which a node runs: all, those from the first chosen one on, the chosen ones, or those with hidden states of
// the target.
enum class CpuRows { kAll, kFromFirst, kChosen, kCommitted };

// A node, checked: its weights lie inside of the file, and its inputs have the sizes that it needs.
struct CpuNode {
  CpuOp op;
  int out = -1;                       // value that it writes; none: the head, and what it chooses
  int in = -1, other = -1, rotary = -1;  // values that it reads; -1: none; experts have a residual in place of a rotary table
  CpuRows over = CpuRows::kAll;
  CpuRows from = CpuRows::kAll;  // of the value that it reads; kGather
  std::vector<Weight> weights;
  const float* floats[4] = {};  // bias; norm; norms of heads, sinks; frequencies; factor; convolution, decay, dt_bias, norm; choice, factor of experts
  size_t width = 0;             // floats of a row that it writes
  size_t cols = 0, first = 0;   // columns that are normed together; the first of those taken, and of how many
  int terms = 1, k = 0;
  bool refine = false;
  float scale = 1.0f, epsilon = 0.0f, softcap = 0.0f;
  gated_mlp::Activation activation = gated_mlp::Activation::kSilu;
  tree_attention::Config attention = {};
  short_conv::Config conv = {};
  gated_delta::Config delta = {};
  experts::Routing routing = {};
  experts::Shapes shapes = {};
  const uint8_t* experts = nullptr;  // packed
  size_t kind = 0, layer = 0;  // of the keys, or of the states
};

// The sizes that a program has to have.
struct CpuShape {
  int64_t vocabulary = 0;  // tokens that it embeds
  int64_t scored = 0;      // rows of its head, of which a pass returns the k best
  int64_t k = 0;
  std::vector<Keys> keys;
  std::vector<States> states;
  bool lent = false;       // whether another model writes the keys
  size_t taps = 0, hidden = 0;  // numbers of hidden states of a drafter's input, and of `out`; none of a model's

  static CpuShape of(const ModelSpec& spec);
};

// The output of a layer: the value that a node writes.
struct CpuLayerOut {
  int layer = 0;
  size_t node = 0;
};

// The program of a graph. `buffers` are the widths of those that serve its values, some of them several one after the other.
struct CpuProgram {
  std::vector<CpuNode> nodes;
  std::vector<size_t> buffers;
  std::vector<std::vector<float>> constants;
  std::vector<CpuLayerOut> outs;  // by layer, ascending
  std::vector<int> exits;         // numbers of layers, of which `outs` has the last ones; none: they cannot be run apart
  size_t ending = 0;              // the node that gathers the rows of the head
  int out = -1;                   // the node that writes `out`

  // `weights`: the contents of weights.bin, and those of the target's; they stay where they are. kBadFile.
  static Status read(std::string_view text, Span<const uint8_t> weights, Span<const uint8_t> shared, const CpuShape& shape,
                     CpuProgram* program);

  // The output of a layer; null for one that has none.
  const CpuLayerOut* out_of(int layer) const;
};

}  // namespace edgedec::engine
