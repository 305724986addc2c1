// The values that const and enum name.
#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/grammar/rules.h"
#include "core/grammar/schema_parts.h"

namespace edgedec::engine {

// Makes the rules of parts of a value.
class RuleSource {
 public:
  virtual RuleId rule_of(Conjunction all) = 0;
  // The rule of a text itself.
  virtual RuleId word(const char* text) = 0;

 protected:
  ~RuleSource() = default;
};

// The values that const and enum leave of a conjunction, each as an alternative; `*found`: whether it has one of them.
Status values_of(const Conjunction& all, std::vector<Conjunction>* options, bool* found);

// The rule of one value.
Status literal_rule(const SchemaPart& part, RuleSource& source, Rule* rule);

// A text as a JSON string, with the escapes that it needs.
std::string quoted_json(std::string_view text);

// A number as JSON without an exponent, in the digits that name it.
std::string plain_number(double value);

}  // namespace edgedec::engine
