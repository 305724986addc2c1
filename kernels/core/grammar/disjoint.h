// Tells alternatives apart, for oneOf.
#pragma once

#include <vector>

#include "core/grammar/rules.h"

namespace edgedec::engine {

// Whether certainly no value is of two of the options: their types differ, or values that they name, or those of a key that
// they require.
bool are_disjoint(const Rules& rules, const std::vector<RuleId>& options);

}  // namespace edgedec::engine
