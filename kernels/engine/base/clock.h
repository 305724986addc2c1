// Time, and how busy the machine is.
#pragma once

#include <optional>

namespace edgedec::engine {

// Seconds from an arbitrary moment on; they never go back.
double monotonic_s();

// Seconds since 1970.
double wall_s();

// The load average of the last minute; none where the system does not tell.
std::optional<double> load_average();

// A clock that tests can script.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() { return monotonic_s(); }
};

}  // namespace edgedec::engine
