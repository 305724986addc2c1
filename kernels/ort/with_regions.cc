#include "ort/with_regions.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/capi.h"
#include "common/wire.h"
#include "ort/program.h"

namespace edgedec::ort {
namespace {

using wire::Fields;
using wire::Message;
using Names = Numbers<std::string_view>;

constexpr uint64_t kGraph = 7;                                // of ModelProto
constexpr uint64_t kNode = 1, kOutput = 12, kValueInfo = 13;  // of GraphProto
constexpr size_t kFewest = 2;                                 // ops that are worth a region

struct Read {
  Node node;
  std::string_view message;
  const KernelOp* op = nullptr;  // null outside regions
};

// A graph's nodes, and everything else that it holds.
struct Graph {
  std::vector<Read> nodes;
  Message rest;
  std::vector<std::string_view> outputs;
  Names typed;  // values whose types it states
  size_t values = 0;
};

std::string_view first_text(std::string_view message) {
  Fields fields(message);
  while (fields.next())
    if (fields.number == 1 && fields.is_bytes) return fields.bytes;
  return {};
}

// A node with a graph of its own may read any value.
bool has_graph(const Node& node) {
  constexpr uint64_t kGraphType = 5, kGraphsType = 10;
  for (const Attribute& one : node.attributes)
    if (one.type == kGraphType || one.type == kGraphsType) return true;
  return false;
}

// False for a graph that cannot be read, has nodes with graphs, or is larger than any of ours.
bool read_graph(std::string_view message, Graph* graph) {
  Fields fields(message);
  while (fields.next()) {
    if (fields.number == kNode && fields.is_bytes) {
      Read read;
      read.message = fields.bytes;
      if (read_node(fields.bytes, &read.node) || has_graph(read.node)) return false;
      if ((graph->values += 1 + read.node.parts()) > kMostValues) return false;
      if (read.node.domain == kDomain && read.node.plain) read.op = op_named(read.node.op);
      graph->nodes.push_back(std::move(read));
      continue;
    }
    graph->rest.copy(fields.whole);
    if (!fields.is_bytes || (fields.number != kOutput && fields.number != kValueInfo)) continue;
    if (++graph->values > kMostValues) return false;
    graph->typed.add(first_text(fields.bytes), 0);
    if (fields.number == kOutput) graph->outputs.push_back(first_text(fields.bytes));
  }
  return !fields.wrong;
}

// The last node that reads each value.
Names last_readers(const Graph& graph) {
  Names last;
  for (std::string_view name : graph.outputs) last.add(name, graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;)
    for (std::string_view name : graph.nodes[i].node.inputs) last.add(name, i);
  return last;
}

// ValueInfoProto of a tensor whose shape is not known.
std::string value_info(std::string_view name, int type) {
  const Message tensor = Message().add(1, static_cast<uint64_t>(type));
  return Message().add(1, name).add(2, Message().add(1, tensor.text()).text()).text();
}

std::string attribute(std::string_view name, int64_t value) {
  return Message().add(1, name).add(3, static_cast<uint64_t>(value)).add(20, uint64_t{Attribute::kInteger}).text();
}

std::string attribute(std::string_view name, std::string_view value) {
  return Message().add(1, name).add(4, value).add(20, uint64_t{Attribute::kText}).text();
}

// The node of the run [first, end), and the types of its outputs.
void add_region(Graph& graph, size_t first, size_t end, Names& last, int threads, Message* to) {
  Message region, ops;
  Names known;
  for (size_t i = first; i < end; ++i) {
    const Read& one = graph.nodes[i];
    ops.add(kNode, one.message);
    for (std::string_view name : one.node.inputs)
      if (!name.empty() && known.add(name, i)) region.add(1, name);
    for (std::string_view name : one.node.outputs) known.add(name, i);
  }
  for (size_t i = first; i < end; ++i) {
    const Node& node = graph.nodes[i].node;
    for (size_t at = 0; at < node.outputs.size(); ++at) {
      const std::string_view name = node.outputs[at];
      const size_t* reader = last.find(name);
      if (name.empty() || !reader || *reader < end) continue;
      region.add(2, name);
      const int type = output_type(*graph.nodes[i].op, at);
      if (type > 0 && graph.typed.add(name, 0)) to->add(kValueInfo, value_info(name, type));
    }
  }
  region.add(3, "region." + std::to_string(first)).add(4, std::string_view("Region"));
  region.add(5, attribute("ops", ops.text())).add(5, attribute("threads", threads)).add(7, std::string_view(kDomain));
  to->add(kNode, region.text());
}

// The graph's message; empty where it has no run of ops.
std::string with_regions(Graph& graph, int threads) {
  Message made;
  bool any = false;
  Names last = last_readers(graph);
  for (size_t first = 0, end = 0; first < graph.nodes.size(); first = end) {
    end = first + 1;
    while (graph.nodes[first].op && end < graph.nodes.size() && graph.nodes[end].op) ++end;
    if (graph.nodes[first].op && end - first >= kFewest) {
      add_region(graph, first, end, last, threads, &made);
      any = true;
    } else {
      for (size_t i = first; i < end; ++i) made.add(kNode, graph.nodes[i].message);
    }
  }
  return any ? made.copy(graph.rest.text()).text() : std::string();
}

}  // namespace

std::string with_regions(std::string_view model, int threads) {
  Graph graph;
  Message made;
  Fields fields(model);
  while (fields.next())  // protobuf reads several graphs as one
    if (fields.number != kGraph || !fields.is_bytes)
      made.copy(fields.whole);
    else if (!read_graph(fields.bytes, &graph))
      return {};
  if (fields.wrong) return {};
  const std::string regions = with_regions(graph, threads);
  return regions.empty() ? regions : made.add(kGraph, regions).text();
}

}  // namespace edgedec::ort

// A model with regions in memory that edgedec_free frees, and its length; null where it has none.
EDGEDEC_EXPORT char* edgedec_with_regions(const char* model, size_t bytes, int threads, size_t* length) {
  const std::string made = edgedec::ort::with_regions({model, bytes}, threads);
  *length = made.size();
  auto* copy = made.empty() ? nullptr : static_cast<char*>(std::malloc(made.size()));
  if (copy) std::memcpy(copy, made.data(), made.size());
  return copy;
}
