// exp and log in double, built from IEEE operations alone: the same bits everywhere. Those of libraries differ in the last bit
// between processors, and one such bit could change a drawn token.
#pragma once

#include <limits>

#include "core/base/span.h"

namespace edgedec::engine {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// e^x to about 1e-15 relative, for x <= 700; below -700 it stays at e^-700.
double portable_exp(double x);

// The same of numbers that are 700 at most, in place.
void portable_exp(Span<double> x);

// Natural logarithm of a positive normal number, to about 1e-15.
double portable_log(double x);

}  // namespace edgedec::engine
