#include "core/memory/units.h"

#include <cmath>

#include "core/base/format.h"
#include "core/memory/size.h"

namespace edgedec::engine {
namespace {

// A number from 1 to 2^53 with one digit behind the point, rounded as "%.1f" is: exactly, ties to even.
std::string one_digit(double value) {
  int exponent = 0;
  const auto mantissa = static_cast<uint64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  const int shift = 53 - exponent;  // value = mantissa / 2^shift
  const uint64_t tenfold = mantissa * 10, half = (uint64_t{1} << shift) >> 1, rest = tenfold & ((uint64_t{1} << shift) - 1);
  uint64_t tenths = tenfold >> shift;
  if (rest > half || (rest == half && half && tenths % 2)) ++tenths;
  return decimal(tenths / 10) + "." + decimal(tenths % 10);
}

}  // namespace

std::string size_text(int64_t count) {
  const char* sign = count < 0 ? "-" : "";
  auto value = static_cast<double>(count < 0 ? -count : count);
  if (value < 1000 || count < 0) return sign + decimal(static_cast<int64_t>(value)) + " B";
  for (const char* unit : {" kB", " MB", " GB"}) {
    value /= 1000;
    if (value < 1000) return one_digit(value) + unit;
  }
  return one_digit(value / 1000) + " TB";
}

std::string size_up(int64_t count) { return decimal(divided_up(count, 1'000'000)) + "MB"; }

}  // namespace edgedec::engine
