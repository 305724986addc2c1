#include "core/sampling/noise.h"

#include <cmath>

#include "core/sampling/portable.h"

namespace edgedec::engine {

double Noise::exponential(int64_t id) const { return -portable_log(uniform(id)); }

uint64_t least_bits_above(double floor) {
  const double least = std::floor(floor * 0x1p52 - 0.5) + 1.0;
  if (!(least > 0.0)) return 0;
  return least >= 0x1p52 ? uint64_t{1} << 52 : static_cast<uint64_t>(least);
}

}  // namespace edgedec::engine
