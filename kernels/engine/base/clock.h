// Time, and how busy the machine is.
#pragma once

#include <optional>

#include "core/base/clock.h"

namespace edgedec::engine {

// Seconds from an arbitrary moment on; they never go back.
double monotonic_s();

// Seconds since 1970.
double wall_s();

// The load average of the last minute; none where the system does not tell.
std::optional<double> load_average();

// The machine's clock.
class SystemClock final : public Clock {
 public:
  double now() override { return monotonic_s(); }
};

}  // namespace edgedec::engine
