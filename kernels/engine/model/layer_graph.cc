#include "engine/model/layer_graph.h"

namespace edgedec::engine {

LayerGraph graph_of(const HeadFacts& facts, int64_t weights, int64_t vocabulary) {
  LayerGraph graph = {"head.onnx", "the drafting head", "the head that its manifest describes", facts, {}, {}, false, vocabulary};
  if (facts.own_table) weights -= facts.table.bytes();  // rows of a table of its own are mapped as they are read
  else graph.tables.emplace_back("table", facts.table);
  graph.weights = weights;
  graph.sizes.width = facts.width();
  graph.sizes.hidden = facts.hidden;
  graph.sizes.always = weights - facts.fc_bytes - facts.head_bytes;
  graph.sizes.committed = facts.fc_bytes;
  graph.sizes.head = facts.head_bytes;
  graph.sizes.table = facts.table.bytes();
  return graph;
}

LayerGraph graph_of(const MtpFacts& facts, int64_t weights) {
  LayerGraph graph = {"mtp.onnx", "the MTP drafter", "what its manifest describes", facts, {}, {}, true, facts.ids};
  graph.tables = {{"table", facts.table}, {"head", facts.head}};
  graph.weights = weights;
  graph.sizes.width = graph.sizes.hidden = facts.hidden;
  graph.sizes.experts = facts.experts.nbytes;
  graph.sizes.always = weights - graph.sizes.experts;
  graph.sizes.head = facts.head.bytes();
  graph.sizes.table = facts.table.offset != facts.head.offset ? facts.table.bytes() : 0;
  graph.sizes.ids = facts.ids;
  graph.sizes.count = facts.experts.count;
  graph.sizes.chosen = facts.experts.chosen;
  return graph;
}

}  // namespace edgedec::engine
