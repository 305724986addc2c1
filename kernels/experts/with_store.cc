#include "experts/with_store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/capi.h"
#include "common/wire.h"
#include "ort/node.h"

namespace edgedec::experts {
namespace {

using wire::Fields;
using wire::Message;

constexpr std::string_view kOp = "Experts", kStore = "store", kPlace = "place";
constexpr size_t kWeight = 2;                          // the op's input
constexpr uint64_t kGraph = 7;                         // of ModelProto
constexpr uint64_t kNode = 1, kInitializer = 5;        // of GraphProto
constexpr uint64_t kAttribute = 5;                     // of NodeProto
constexpr uint64_t kName = 1, kInteger = 3, kType = 20;  // of AttributeProto
constexpr uint64_t kDims = 1, kDataType = 2, kTensorName = 8, kRawData = 9, kExternal = 13;  // of TensorProto

// A tensor of several experts in the file of the weights.
struct Stacked {
  std::string_view name;
  uint64_t type = 0, place = 0;
  bool used = false;
};

std::string_view text_in(std::string_view message, uint64_t number) {
  std::string_view found;
  for (Fields fields(message); fields.next();)
    if (fields.number == number && fields.is_bytes) found = fields.bytes;
  return found;
}

uint64_t number_in(std::string_view text) {
  uint64_t found = 0;
  for (char digit : text) found = 10 * found + static_cast<uint64_t>(digit - '0');  // graph_guard.h has seen it
  return found;
}

// False for a tensor that is no stack of experts in a file.
bool read_stack(std::string_view tensor, Stacked* found) {
  bool external = false;
  uint64_t first = 0;
  for (Fields fields(tensor); fields.next();) {
    if (fields.number == kDims && !first) {
      Fields packed(fields.bytes);
      if (!fields.is_bytes) first = fields.value;
      else if (!packed.varint(&first)) return false;
    }
    if (fields.number == kDataType) found->type = fields.value;
    if (fields.number == kTensorName) found->name = fields.bytes;
    if (fields.number != kExternal) continue;
    external = true;
    if (text_in(fields.bytes, 1) == "offset") found->place = number_in(text_in(fields.bytes, 2));
  }
  return external && first > 1;
}

std::string attribute(std::string_view name, uint64_t value) {
  return Message().add(kName, name).add(kInteger, value).add(kType, uint64_t{ort::Attribute::kInteger}).text();
}

class Rewriting {
 public:
  explicit Rewriting(int64_t store) : store_(static_cast<uint64_t>(store)) {}

  // Finds the stacks of a graph. False for a message that is none.
  bool read(std::string_view graph) {
    Fields tensors(graph);
    Stacked stack;
    while (tensors.next())
      if (tensors.number == kInitializer && tensors.is_bytes && read_stack(tensors.bytes, &(stack = {}))) stacks_.push_back(stack);
    return !tensors.wrong;
  }

  std::string rewritten(std::string_view graph) {
    Message made;
    for (Fields fields(graph); fields.next();)
      if (fields.number == kNode && fields.is_bytes) made.add(kNode, node(fields.bytes));
      else if (fields.number != kInitializer || !fields.is_bytes) made.copy(fields.whole);
    for (Fields fields(graph); fields.next();)
      if (fields.number == kInitializer && fields.is_bytes) made.add(kInitializer, tensor(fields.bytes));
    return made.text();
  }

 private:
  Stacked* named(std::string_view name) {
    const auto found = std::find_if(stacks_.begin(), stacks_.end(), [name](const Stacked& one) { return one.name == name; });
    return found == stacks_.end() ? nullptr : &*found;
  }

  std::string node(std::string_view message) {
    ort::Node read;
    Stacked* stack = nullptr;
    if (!ort::read_node(message, &read) && read.op == kOp && read.inputs.size() > kWeight) stack = named(read.inputs[kWeight]);
    if (!stack) return std::string(message);
    stack->used = true;
    Message made;
    for (Fields fields(message); fields.next();) {
      const std::string_view name = fields.number == kAttribute && fields.is_bytes ? text_in(fields.bytes, kName) : std::string_view();
      if (name != kStore && name != kPlace) made.copy(fields.whole);
    }
    return made.add(kAttribute, attribute(kStore, store_)).add(kAttribute, attribute(kPlace, stack->place)).text();
  }

  // A tensor of no experts in place of those that a store has.
  std::string tensor(std::string_view message) {
    Stacked read;
    const Stacked* stack = read_stack(message, &read) ? named(read.name) : nullptr;
    if (!stack || !stack->used) return std::string(message);
    return Message().add(kDims, uint64_t{0}).add(kDataType, read.type).add(kTensorName, read.name).add(kRawData, std::string_view()).text();
  }

  const uint64_t store_;
  std::vector<Stacked> stacks_;
};

}  // namespace

std::string with_store(std::string_view model, int64_t store) {
  Rewriting rewriting(store);
  Fields fields(model);
  while (fields.next())  // protobuf reads several graphs as one
    if (fields.number == kGraph && fields.is_bytes && !rewriting.read(fields.bytes)) return {};
  if (fields.wrong) return {};
  Message made;
  for (Fields again(model); again.next();)
    if (again.number == kGraph && again.is_bytes) made.add(kGraph, rewriting.rewritten(again.bytes));
    else made.copy(again.whole);
  return made.text();
}

}  // namespace edgedec::experts

// Such a model in memory that edgedec_free frees, and its length; null for bytes that are no model.
EDGEDEC_EXPORT char* edgedec_with_store(const char* model, size_t bytes, int64_t store, size_t* length) {
  const std::string made = edgedec::experts::with_store({model, bytes}, store);
  *length = made.size();
  auto* copy = made.empty() ? nullptr : static_cast<char*>(std::malloc(made.size()));
  if (copy) std::memcpy(copy, made.data(), made.size());
  return copy;
}
