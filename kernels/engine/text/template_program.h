// The program of a chat template: the tree of its nodes, as edgedec/text/template_program.py writes it.
//
// The file: a header, the nodes, lists of nodes, and texts. A node comes behind its children, so that a tree has no loop.
// The content may be hostile: check() looks at every number once, and the renderer relies on it.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/status.h"

namespace edgedec::engine {

enum class Op : uint32_t {
  kRefuse, kNothing, kBool, kInt, kText, kName, kAttribute, kItem, kSlice, kList, kJoin, kAdd, kSubtract, kMultiply, kModulo,
  kNegate, kNot, kAnd, kOr, kCompare, kChoose, kFilter, kTest, kMethod, kCall, kOutput, kIf, kFor, kSet, kSetAttribute,
  kSetBlock, kBreak, kContinue, kBlock, kNamespace, kOpaque, kSetPair, kSelect, kDict, kMacro, kParameter, kKeyword, kCallMacro,
  kReal,
  kCount
};
enum class Comparison : uint32_t { kEqual, kUnequal, kBelow, kAtMost, kAbove, kAtLeast, kIn, kNotIn, kCount };
enum class Filter : uint32_t {
  kTrim, kLength, kUpper, kLower, kCapitalize, kTitle, kString, kDefault, kFirst, kLast, kJoin, kList, kReplace, kToJson,
  kItems, kDictSort, kSafe,
  kCount
};
enum class Test : uint32_t {
  kDefined, kUndefined, kNone, kString, kMapping, kIterable, kSequence, kNumber, kInteger, kBoolean, kTrue, kFalse, kEqual,
  kUnequal, kOdd, kEven, kDivisibleBy, kIn,
  kCount
};
enum class Method : uint32_t {
  kStrip, kLeftStrip, kRightStrip, kStartsWith, kEndsWith, kSplit, kReplace, kUpper, kLower, kCapitalize, kTitle, kJoin, kGet,
  kRightSplit, kFind, kCountOf, kItems, kKeys, kValues,
  kCount
};
enum class Function : uint32_t { kRaise, kRange, kTimeNow, kCount };

constexpr uint32_t kNoNode = 0xFFFFFFFF;

struct Node {
  Op op;
  uint32_t line;
  uint32_t values[4];
};

class TemplateProgram {
 public:
  // kBadFile: the content is damaged, or is not the program of the template with this text.
  static Status open(std::string_view content, std::string_view source, TemplateProgram* program);

  const Node& node(uint32_t number) const { return nodes_[number]; }
  uint32_t root() const { return count_ - 1; }
  uint32_t item(uint32_t at) const { return lists_[at]; }
  std::string_view text(uint32_t start, uint32_t length) const { return texts_.substr(start, length); }
  uint32_t names() const { return names_; }

 private:
  bool check() const;
  bool check(uint32_t number) const;

  const Node* nodes_ = nullptr;
  const uint32_t* lists_ = nullptr;
  std::string_view texts_;
  uint32_t count_ = 0, items_ = 0, names_ = 0;
};

}  // namespace edgedec::engine
