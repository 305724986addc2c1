#include "engine/sampling/portable.h"

#include <cmath>

namespace edgedec::engine {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kPerLn2 = 1.0 / kLn2;
constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 leading bits: exact times |k| < 2^20
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kExpFloor = -700.0;

constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

}  // namespace

double portable_exp(double x) {
  if (x < kExpFloor) x = kExpFloor;
  const double k = std::nearbyint(x * kPerLn2);
  x -= k * kLn2High;
  x -= k * kLn2Low;
  double result = x * (1.0 / factorial(13));
  for (int n = 12; n > 0; --n) {
    result += 1.0 / factorial(n);
    result *= x;
  }
  result += 1.0;
  return std::ldexp(result, static_cast<int>(k));
}

double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0x1.6a09e667f3bcdp-1) {  // the root of one half
    mantissa += mantissa;
    exponent -= 1;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double result = square * (2.0 / 21);
  for (int n = 9; n > 0; --n) {
    result += 2.0 / (2 * n + 1);
    result *= square;
  }
  result += 2.0;
  return result * s + exponent * kLn2;
}

}  // namespace edgedec::engine
