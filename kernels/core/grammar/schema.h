// Compiles a JSON schema to rules: the same texts as edgedec/grammar, where both keep to it.
//
// - Keys come in the order of `properties`, then those that are required alone, then others.
// - Between the parts of JSON stands at most one space, or a new line with at most 40 spaces or tabs.
// - An integer without a bound has at most the digits of 64 bits.
//
// The schema may come from an enemy: its size, its rules and the work on them are bounded.
#pragma once

#include <string_view>

#include "core/base/status.h"
#include "core/grammar/rules.h"

namespace edgedec::engine {

// kUsage, in one line: the text is no JSON schema, no value keeps to it, or it has a keyword that cannot be kept to.
Status rules_of_schema(std::string_view text, Rules* rules);

}  // namespace edgedec::engine
