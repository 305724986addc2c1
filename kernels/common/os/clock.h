// Time.
#pragma once

#include <ctime>
#include <optional>

namespace edgedec::os {

// Seconds from an arbitrary moment on; they never go back. It is the clock of Python's time.perf_counter.
double monotonic_s();

// Seconds since 1970.
double wall_s();

// The date and time of now, in the time zone of the machine.
std::tm local_now();

// The load average of the last minute; none where the system does not tell.
std::optional<double> load_average();

}  // namespace edgedec::os
