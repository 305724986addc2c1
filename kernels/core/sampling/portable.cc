#include "core/sampling/portable.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace edgedec::engine {
namespace {

constexpr double kPerLn2 = 1.0 / kLn2;
constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 leading bits: exact times |k| < 2^20
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kExpFloor = -700.0, kExpCeiling = 700.0;
constexpr double kToWhole = 0x1.8p52;  // a sum with it has no digits behind the point, and its low bits are the integer

constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

constexpr double kTerms[] = {1 / factorial(13), 1 / factorial(12), 1 / factorial(11), 1 / factorial(10), 1 / factorial(9),
                             1 / factorial(8),  1 / factorial(7),  1 / factorial(6),  1 / factorial(5),  1 / factorial(4),
                             1 / factorial(3),  1 / factorial(2),  1.0};

// e^x / 2^k for the integer k nearest to x / ln 2.
inline double mantissa_of(double x, double k) {
  x -= k * kLn2High;
  x -= k * kLn2Low;
  double result = x * kTerms[0];
  for (int n = 1; n < 13; ++n) {
    result += kTerms[n];
    result *= x;
  }
  return result + 1.0;
}

// e^x for x <= 700, without branches, so that loops over it become vector code.
inline double exp_below_ceiling(double x) {
  x = x < kExpFloor ? kExpFloor : x;
  const double whole = x * kPerLn2 + kToWhole;  // rounds half to even
  uint64_t bits;
  std::memcpy(&bits, &whole, sizeof bits);
  const uint64_t power = (bits + 1023) << 52;  // 2^k: neither its exponent nor that of the result leaves the normal range
  double scale;
  std::memcpy(&scale, &power, sizeof scale);
  return mantissa_of(x, whole - kToWhole) * scale;
}

}  // namespace

double portable_exp(double x) {
  if (x <= kExpCeiling) return exp_below_ceiling(x);
  const double k = std::nearbyint(x * kPerLn2);
  const double result = mantissa_of(x, k);
  return std::ldexp(result, k < 4096.0 ? static_cast<int>(k) : 4096);
}

void portable_exp(Span<double> x) {
  for (double& one : x) one = exp_below_ceiling(one);
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
