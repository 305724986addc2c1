#include "engine/model/tap_outputs.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/wire.h"
#include "engine/model/exits.h"

namespace edgedec::engine {
namespace {

using wire::Fields;
using wire::Message;

constexpr uint64_t kGraphField = 7, kOutputField = 12;  // of ModelProto and GraphProto

// ValueInfoProto of a tensor of floats.
std::string value_info(int layer, int64_t hidden) {
  const Message rows = Message().add(2, "tokens." + std::to_string(layer));
  const Message columns = Message().add(1, static_cast<uint64_t>(hidden));
  const Message shape = Message().add(1, rows.text()).add(1, columns.text());
  const Message tensor = Message().add(1, uint64_t{1}).add(2, shape.text());
  return Message().add(1, Exits::out(layer)).add(2, Message().add(1, tensor.text()).text()).text();
}

// The names of the outputs that a model has.
std::vector<std::string_view> outputs_of(std::string_view model) {
  std::vector<std::string_view> names;
  for (Fields top(model); top.next();) {
    if (top.number != kGraphField || !top.is_bytes) continue;
    for (Fields graph(top.bytes); graph.next();) {
      if (graph.number != kOutputField || !graph.is_bytes) continue;
      for (Fields info(graph.bytes); info.next();)
        if (info.number == 1 && info.is_bytes) names.push_back(info.bytes);
    }
  }
  return names;
}

// A name as it lies in a message: its length comes before it.
std::string as_text(const std::string& name) { return Message().add(1, name).text().substr(1); }

}  // namespace

void add_outputs(std::string* model, Span<const int> layers, int64_t hidden) {
  const std::vector<std::string_view> there = outputs_of(*model);
  Message added;
  for (int layer : layers) {
    const std::string name = Exits::out(layer);
    const bool computed = model->find(as_text(name)) != std::string::npos;
    if (computed && std::find(there.begin(), there.end(), name) == there.end()) added.add(kOutputField, value_info(layer, hidden));
  }
  if (!added.text().empty()) model->append(Message().add(kGraphField, added.text()).text());
}

}  // namespace edgedec::engine
