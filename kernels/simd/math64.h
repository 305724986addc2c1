// log, sine and cosine in double, made of IEEE additions, multiplications and divisions only: the same bits everywhere,
// which C libraries do not guarantee. Compile with -ffp-contract=off.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/inline.h"

namespace edgedec {
namespace {

// Natural logarithm of a finite, positive, normal x; error below 2 ulp.
// x = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1).
EDGEDEC_INLINE double log_exact(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdull;  // sqrt(1/2)
  const int64_t e = static_cast<int64_t>(bits - kRootHalf) >> 52;
  bits -= static_cast<uint64_t>(e) << 52;
  double m;
  std::memcpy(&m, &bits, 8);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double series = 0.0;
  for (int k = 23; k >= 3; k -= 2) series = series * z + 1.0 / k;
  const double power = static_cast<double>(e);
  // ln 2 in two parts: the first has 40 bits, so its product with the exponent is exact.
  return power * 0x1.62e42fefa2p-1 + (2.0 * s + (2.0 * s * (z * series) + power * 0x1.9ef35793c7673p-41));
}

struct SinCos {
  double sin, cos;
};

// Sine and cosine, absolute error below 1e-15 for |x| <= 2^23. x = n pi/2 + r with |r| <= pi/4 (a little more at the
// ends); pi/2 in three parts whose first two have 30 bits, so that their products with n are exact; then the
// Taylor series, whose first missing term is below 1e-17.
EDGEDEC_INLINE SinCos sincos_exact(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: rounds to an integer, kept in the low bits
  const double shifted = x * 0x1.45f306dc9c883p-1 + kMagic, n = shifted - kMagic;
  uint64_t quadrant;
  std::memcpy(&quadrant, &shifted, 8);
  const double r = ((x - n * 0x1.921fb54p+0) - n * 0x1.10b46118p-30) - n * 0x1.313198a2e037p-61, z = r * r;
  double s = 0.0, c = 0.0;
  for (int k = 17; k >= 3; k -= 2) s = (s + 1.0) * z * (-1.0 / (k * (k - 1)));
  for (int k = 18; k >= 2; k -= 2) c = (c + 1.0) * z * (-1.0 / (k * (k - 1)));
  s = r + r * s;
  c = 1.0 + c;
  const bool swap = quadrant & 1;
  const double sine = swap ? c : s, cosine = swap ? s : c;
  return {quadrant & 2 ? -sine : sine, (quadrant + 1) & 2 ? -cosine : cosine};
}

}  // namespace
}  // namespace edgedec
