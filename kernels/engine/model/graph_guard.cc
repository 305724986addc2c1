#include "engine/model/graph_guard.h"

#include <string_view>

#include "common/capi.h"
#include "common/wire.h"
#include "engine/base/files.h"
#include "engine/bundle/manifest.h"

namespace edgedec::engine {
namespace {

using wire::Fields;

constexpr int kMostDepth = 100;

// Messages of onnx.proto3 in which tensors can be.
enum Kind : uint8_t { kModel, kTraining, kGraph, kFunction, kNode, kAttribute, kSparse, kTensor };

// A field by its number that holds such a message.
struct Child {
  Kind parent;
  uint64_t number;
  Kind kind;
};
constexpr Child kChildren[] = {
    {kModel, 7, kGraph},      {kModel, 20, kTraining},   {kModel, 25, kFunction},   {kTraining, 1, kGraph},
    {kTraining, 2, kGraph},   {kGraph, 1, kNode},        {kGraph, 5, kTensor},      {kGraph, 15, kSparse},
    {kFunction, 7, kNode},    {kFunction, 11, kAttribute}, {kNode, 5, kAttribute},  {kAttribute, 5, kTensor},
    {kAttribute, 6, kGraph},  {kAttribute, 10, kTensor}, {kAttribute, 11, kGraph},  {kAttribute, 22, kSparse},
    {kAttribute, 23, kSparse}, {kSparse, 1, kTensor},    {kSparse, 2, kTensor},
};
constexpr uint64_t kDims = 1, kDataType = 2, kExternalData = 13, kDataLocation = 14;

// Bytes of an element by TensorProto.DataType; 0 for types that no weight has.
constexpr uint8_t kElementBytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2};

// Where an external tensor says that it is.
struct Place {
  std::string_view location, offset, length;
  int entries = 0;

  const char* add(std::string_view entry) {
    Fields fields(entry);
    std::string_view key, value;
    while (fields.next())
      if (fields.is_bytes && fields.number == 1)
        key = fields.bytes;
      else if (fields.is_bytes && fields.number == 2)
        value = fields.bytes;
    ++entries;
    if (key == "location") location = value;
    if (key == "offset") offset = value;
    if (key == "length") length = value;
    return fields.wrong;
  }
};

bool number(std::string_view text, uint64_t* found) {
  *found = 0;
  for (char digit : text) {
    if (digit < '0' || digit > '9') return false;
    *found = *found * 10 + static_cast<uint64_t>(digit - '0');
  }
  return !text.empty() && text.size() < 19;
}

class GraphWalk {
 public:
  GraphWalk(uint64_t weights, std::string_view* domain) : size_(weights), domain_(domain) {}

  // Walks this message and all inside it.
  const char* walk(Kind kind, std::string_view message, int depth) {
    if (kind == kTensor) return check_tensor(message);
    if (domain_)
      if (const char* wrong = check_domain(kind, message)) return wrong;
    if (depth > kMostDepth) return "its graphs are nested too deeply";
    Fields fields(message);
    while (fields.next()) {
      if (!fields.is_bytes) continue;
      for (const Child& child : kChildren)
        if (child.parent == kind && child.number == fields.number)
          if (const char* wrong = walk(child.kind, fields.bytes, depth + 1)) return wrong;
    }
    return fields.wrong;
  }

 private:
  // The field with a domain: of an opset that is imported (field 1 of that), of a node's op, of a function.
  const char* check_domain(Kind kind, std::string_view message) {
    const uint64_t number = kind == kModel ? 8 : kind == kNode ? 7 : kind == kFunction ? 10 : 0;
    if (!number) return nullptr;
    Fields fields(message);
    while (fields.next()) {
      if (fields.number != number || !fields.is_bytes) continue;
      std::string_view domain = fields.bytes;
      if (kind == kModel)
        if (const char* wrong = first_text(fields.bytes, &domain)) return wrong;
      if (domain.empty() || domain == "ai.onnx") continue;
      *domain_ = domain;
      return "it has ops of the domain";
    }
    return fields.wrong;
  }

  // Field 1 of a message.
  static const char* first_text(std::string_view message, std::string_view* found) {
    *found = {};
    Fields fields(message);
    while (fields.next())
      if (fields.number == 1 && fields.is_bytes) *found = fields.bytes;
    return fields.wrong;
  }

  const char* check_tensor(std::string_view message) {
    Place place;
    uint64_t elements = 1, type = 0, location = 0;
    Fields fields(message);
    while (fields.next()) {
      if (fields.number == kDims) {
        if (const char* wrong = multiply(fields, &elements)) return wrong;
      } else if (fields.number == kDataType && !fields.is_bytes) {
        type = fields.value;
      } else if (fields.number == kDataLocation && !fields.is_bytes) {
        location = fields.value;
      } else if (fields.number == kExternalData && fields.is_bytes) {
        if (const char* wrong = place.add(fields.bytes)) return wrong;
      }
    }
    if (fields.wrong) return fields.wrong;
    if (!place.entries && !location) return nullptr;
    const uint64_t element = type < sizeof kElementBytes ? kElementBytes[type] : 0;
    return check_place(place, times(elements, element));
  }

  // A product that stays at the largest number: no file is as long.
  static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
  }

  // Dimensions stand one by one, or packed.
  static const char* multiply(const Fields& dims, uint64_t* elements) {
    if (!dims.is_bytes) {
      *elements = times(*elements, dims.value);
      return nullptr;
    }
    Fields packed(dims.bytes);
    uint64_t value = 0;
    while (!packed.empty()) {
      if (!packed.varint(&value)) return packed.wrong;
      *elements = times(*elements, value);
    }
    return nullptr;
  }

  // A tensor of `wanted` bytes; 0 means that its type or shape is none that a weight has.
  const char* check_place(const Place& place, uint64_t wanted) {
    if (place.entries != 3 || !place.location.data() || !place.offset.data() || !place.length.data())
      return "a weight does not say where it is";
    if (place.location != kWeightsFile) return "a weight is not in weights.bin";
    uint64_t offset = 0, length = 0;
    if (!number(place.offset, &offset) || !number(place.length, &length)) return "the place of a weight is not a number";
    if (offset > size_ || length > size_ - offset) return "a weight lies outside weights.bin";
    if (length != wanted || !wanted) return "a weight has another size than its shape";
    return nullptr;
  }

  uint64_t size_;
  std::string_view* domain_;
};

}  // namespace

const char* wrong_with_graph(Span<const uint8_t> graph, uint64_t weights, std::string_view* domain) {
  return GraphWalk(weights, domain).walk(kModel, {reinterpret_cast<const char*>(graph.data()), graph.size()}, 0);
}

Status check_graph(const std::string& bundle, const char* graph) {
  const auto refused = [graph](const std::string& why) {
    return Status(Code::kBadFile, std::string(graph) + " of the bundle is broken: " + why,
                  "pull or export the model again");
  };
  const int64_t size = file_size(path_in(bundle, kWeightsFile));
  if (size < 0) return refused("its weights cannot be read");
  std::string content;
  if (const Status read = read_file(path_in(bundle, graph), kMostGraphBytes, &content); !read.ok()) return refused(read.message());
  const Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(content.data()), content.size());
  const char* wrong = wrong_with_graph(bytes, static_cast<uint64_t>(size));
  return wrong ? refused(wrong) : Status();
}

}  // namespace edgedec::engine

// wrong_with_graph(); `standard`: with its check of domains, of which *domain and *length tell.
EDGEDEC_EXPORT const char* edgedec_wrong_with_graph(const uint8_t* graph, size_t size, uint64_t weights, int standard,
                                                    const char** domain, size_t* length) {
  std::string_view found;
  const char* wrong = edgedec::engine::wrong_with_graph({graph, size}, weights, standard ? &found : nullptr);
  *domain = found.data();
  *length = found.size();
  return wrong;
}
