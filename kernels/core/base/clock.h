// A clock that the host hands in: the core has none of its own.
#pragma once

namespace edgedec::engine {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds from an arbitrary moment on; they never go back.
  virtual double now() = 0;
};

}  // namespace edgedec::engine
