// The rules of schemas of one type.
#pragma once

#include "core/base/status.h"
#include "core/grammar/literals.h"
#include "core/grammar/rules.h"
#include "core/grammar/schema_parts.h"

namespace edgedec::engine {

// The rule of a conjunction whose types are one of JSON's. kUsage: a keyword of that type cannot be kept to.
Status typed_rule(const Conjunction& all, RuleSource& source, Rule* rule);

}  // namespace edgedec::engine
