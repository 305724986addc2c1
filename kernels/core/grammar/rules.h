// The form of a text as rules over bytes: what a JSON schema, or a list of choices, is compiled to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/grammar/decimals.h"
#include "core/grammar/pattern.h"

namespace edgedec::engine {

using RuleId = uint32_t;
constexpr RuleId kNoRule = UINT32_MAX;
constexpr uint32_t kEndless = UINT32_MAX;

enum class RuleKind : uint8_t {
  kNothing,  // no text
  kChoice,   // a text of one of `parts`
  kLiteral,  // `text` itself
  kQuoted,   // `text` as a JSON string, characters that need it escaped
  kString,   // a JSON string of `least` to `most` characters
  kPattern,  // a JSON string whose text has a pattern, that of `patterns`
  kInteger,  // from `least` to `most`
  kNumber,
  kDecimal,  // a number without an exponent, with one of the magnitudes of `signs`
  kArray,    // `least` to `most` items: those of `parts`, then of `rest`
  kObject,   // `fields` in order, then keys of others with values of `rest`
};

// A key of an object, in the bytes that spell it with its quotes.
struct Field {
  std::string key;
  RuleId value = kNoRule;  // kNoRule: the key is not possible
  bool required = false;
};

// A tree of the keys of an object: the other keys are none of them.
struct KeyNode {
  uint8_t byte = 0;
  uint32_t child = 0, next = 0;  // 0: none, as the root is nobody's child
};

struct Rule {
  RuleKind kind = RuleKind::kNothing;
  std::string text;
  std::vector<RuleId> parts;
  std::vector<Field> fields;
  std::vector<KeyNode> keys;  // the first one is the root
  std::vector<Pattern> patterns;  // one
  std::vector<Magnitudes> signs;  // of numbers from zero on, and of those below it
  RuleId rest = kNoRule;      // kNoRule: there are no further items or keys
  int64_t least = 0, most = INT64_MAX;
  uint32_t height = kEndless;  // nested values in its flattest text; kEndless: it has none that ends
};

struct Rules {
  std::vector<Rule> all;
  RuleId root = kNoRule;

  const Rule& operator[](RuleId at) const { return all[at]; }
};

// Ends the making of rules: finds which of them have texts, and leaves out parts that have none. Choices have no choices
// among their parts then. False: there are too many.
bool finish_rules(Rules* rules);

// The rules of a text that is one of `choices`.
Rules rules_of_choices(const std::vector<std::string>& choices);

}  // namespace edgedec::engine
