#include "ort/node.h"

#include <cstring>

#include "common/wire.h"
#include "ort/numbers.h"

namespace edgedec::ort {
namespace {

using wire::Fields;

constexpr char kTooMany[] = "a node has too many parts";  // each takes many times its bytes in the file

// Numbers stand one by one, or packed.
const char* add_integers(const Fields& field, std::vector<int64_t>* integers) {
  if (!field.is_bytes) {
    integers->push_back(static_cast<int64_t>(field.value));
    return nullptr;
  }
  Fields packed(field.bytes);
  uint64_t value = 0;
  while (!packed.empty()) {
    if (!packed.varint(&value)) return packed.wrong;
    if (integers->size() >= kMostValues) return kTooMany;
    integers->push_back(static_cast<int64_t>(value));
  }
  return nullptr;
}

const char* read_attribute(std::string_view message, Attribute* found) {
  Fields fields(message);
  while (fields.next()) {
    if (fields.number == 1 && fields.is_bytes) found->name = fields.bytes;
    if (fields.number == 2 && fields.is_bytes && fields.bytes.size() == sizeof(float))
      std::memcpy(&found->real, fields.bytes.data(), sizeof(float));
    if (fields.number == 3 && !fields.is_bytes) found->integer = static_cast<int64_t>(fields.value);
    if (fields.number == 4 && fields.is_bytes) found->text = fields.bytes;
    if (fields.number == 8)
      if (const char* wrong = add_integers(fields, &found->integers)) return wrong;
    if (fields.number == 20 && !fields.is_bytes) found->type = fields.value;
  }
  return fields.wrong;
}

bool is_plain(uint64_t type) {
  return type == Attribute::kReal || type == Attribute::kInteger || type == Attribute::kText ||
         type == Attribute::kIntegers;
}

}  // namespace

const char* read_node(std::string_view message, Node* node) {
  Fields fields(message);
  while (fields.next()) {
    if (!fields.is_bytes) continue;
    if (node->parts() >= kMostValues) return kTooMany;
    if (fields.number == 1) node->inputs.push_back(fields.bytes);
    if (fields.number == 2) node->outputs.push_back(fields.bytes);
    if (fields.number == 4) node->op = fields.bytes;
    if (fields.number == 7) node->domain = fields.bytes;
    if (fields.number != 5) continue;
    node->attributes.emplace_back();
    if (const char* wrong = read_attribute(fields.bytes, &node->attributes.back())) return wrong;
    if (!is_plain(node->attributes.back().type)) node->plain = false;
  }
  return fields.wrong;
}

}  // namespace edgedec::ort
