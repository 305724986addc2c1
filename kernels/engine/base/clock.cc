#include "engine/base/clock.h"

#include <time.h>

#include <string>

#include "engine/base/files.h"
#include "core/base/json.h"

namespace edgedec::engine {
namespace {

double read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

double monotonic_s() { return read_clock(CLOCK_MONOTONIC); }
double wall_s() { return read_clock(CLOCK_REALTIME); }

std::optional<double> load_average() {
  std::string text;
  if (!read_file("/proc/loadavg", 4096, &text).ok()) return {};
  text.resize(text.find(' ') == std::string::npos ? text.size() : text.find(' '));
  return parse_real(text);
}

}  // namespace edgedec::engine
