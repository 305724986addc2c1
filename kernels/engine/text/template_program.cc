#include "engine/text/template_program.h"

#include <cstddef>
#include <vector>

#include "engine/base/sha256.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostBytes = 16 << 20;
constexpr uint32_t kMostDepth = 200;  // of nodes in nodes: it bounds the recursion of the renderer

struct Header {
  char magic[8];
  uint8_t hash[32];  // SHA-256 of the template and of all that follows this field
  uint32_t nodes, items, texts, names;
};

// The operands of each kind of node: n a node, ? a node or none, l a list of nodes, t a text, v a name, x a number.
constexpr const char* kShapes[static_cast<size_t>(Op::kCount)] = {
    "t", "", "x", "xx", "t", "vt", "nt", "nn", "n???", "l", "l", "nn", "nn", "nn", "nn",
    "n", "n", "nn", "nn", "nnx", "nn?", "nxl", "nxl", "nxl", "xvl", "l", "nnn", "vnnn", "vn", "vnt",
    "vn", "", "", "l", "vl", "", "vvn", "vnn", "l", "ln", "vt?", "tn", "vl", "t"};

struct Bound {
  Op op;
  uint32_t operand, below;
};
constexpr Bound kBounds[] = {{Op::kCompare, 2, static_cast<uint32_t>(Comparison::kCount)},
                             {Op::kFilter, 1, static_cast<uint32_t>(Filter::kCount)},
                             {Op::kTest, 1, static_cast<uint32_t>(Test::kCount)},
                             {Op::kMethod, 1, static_cast<uint32_t>(Method::kCount)},
                             {Op::kCall, 0, static_cast<uint32_t>(Function::kCount)},
                             {Op::kInt, 1, 1u << 30}};

Status damaged_program() { return {Code::kBadFile, "chat_template.program is damaged", "export the folder again"}; }

}  // namespace

Status TemplateProgram::open(std::string_view content, std::string_view source, TemplateProgram* program) {
  if (content.size() < sizeof(Header) || content.size() > kMostBytes || reinterpret_cast<uintptr_t>(content.data()) % 4 ||
      content.substr(0, 8) != "EDGETPL3")
    return damaged_program();
  const auto& header = *reinterpret_cast<const Header*>(content.data());
  Sha256 hash;
  hash.add(source);
  hash.add(content.substr(offsetof(Header, nodes)));
  const std::string hex = hash.hex();
  for (size_t i = 0; i < 32; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    if (hex[2 * i] == kDigits[header.hash[i] >> 4] && hex[2 * i + 1] == kDigits[header.hash[i] & 15]) continue;
    return {Code::kBadFile, "chat_template.program is damaged, or not of this chat template", "export the folder again"};
  }
  const uint64_t nodes = uint64_t{header.nodes} * sizeof(Node), lists = uint64_t{header.items} * 4;
  if (sizeof(Header) + nodes + lists + header.texts != content.size() || !header.nodes) return damaged_program();
  const char* at = content.data() + sizeof(Header);
  TemplateProgram made;
  made.nodes_ = reinterpret_cast<const Node*>(at);
  made.lists_ = reinterpret_cast<const uint32_t*>(at + nodes);
  made.texts_ = {at + nodes + lists, header.texts};
  made.count_ = header.nodes;
  made.items_ = header.items;
  made.names_ = header.names;
  if (!made.check()) return damaged_program();
  *program = made;
  return {};
}

bool TemplateProgram::check() const {
  std::vector<uint32_t> depth(count_, 1);
  for (uint32_t number = 0; number < count_; ++number) {
    if (!check(number)) return false;
    const Node& node = nodes_[number];
    const auto above = [&](uint32_t child) { depth[number] = depth[child] >= depth[number] ? depth[child] + 1 : depth[number]; };
    const uint32_t* value = node.values;
    for (const char* shape = kShapes[static_cast<size_t>(node.op)]; *shape; value += *shape == 'l' || *shape == 't' ? 2 : 1, ++shape) {
      if (*shape == 'n' || (*shape == '?' && *value != kNoNode)) above(*value);
      if (*shape == 'l') {
        for (uint32_t i = 0; i < value[1]; ++i) above(lists_[value[0] + i]);
      }
    }
    if (depth[number] > kMostDepth) return false;
  }
  return true;
}

bool TemplateProgram::check(uint32_t number) const {
  const Node& node = nodes_[number];
  if (node.op >= Op::kCount) return false;
  const uint32_t* value = node.values;
  for (const char* shape = kShapes[static_cast<size_t>(node.op)]; *shape; ++shape) {
    const uint32_t one = *value++;
    if (*shape == 'n' && one >= number) return false;
    if (*shape == '?' && one >= number && one != kNoNode) return false;
    if (*shape == 'v' && one >= names_) return false;
    if (*shape == 't') {
      const uint32_t length = *value++;
      if (one > texts_.size() || length > texts_.size() - one) return false;
    }
    if (*shape == 'l') {
      const uint32_t length = *value++;
      if (one > items_ || length > items_ - one) return false;
      for (uint32_t i = 0; i < length; ++i) {
        if (lists_[one + i] >= number) return false;
      }
    }
  }
  for (const Bound& bound : kBounds) {
    if (bound.op == node.op && node.values[bound.operand] >= bound.below) return false;
  }
  return true;
}

}  // namespace edgedec::engine
