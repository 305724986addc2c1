// A node of an ONNX graph, read from its message.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace edgedec::ort {

struct Attribute {
  enum Type { kReal = 1, kInteger = 2, kText = 3, kIntegers = 7 };  // of AttributeProto

  std::string_view name, text;
  uint64_t type = 0;
  int64_t integer = 0;
  float real = 0.0f;
  std::vector<int64_t> integers;
};

struct Node {
  std::string_view op, domain;
  std::vector<std::string_view> inputs, outputs;  // "" is one that is missing
  std::vector<Attribute> attributes;
  bool plain = true;  // every attribute is of a type that Attribute names

  size_t parts() const { return inputs.size() + outputs.size() + attributes.size(); }
};

// Reads a NodeProto, which has to outlive the node. Null, or why it is none.
const char* read_node(std::string_view message, Node* node);

}  // namespace edgedec::ort
