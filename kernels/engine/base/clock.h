// The machine's clock.
#pragma once

#include "common/os/clock.h"
#include "core/base/clock.h"

namespace edgedec::engine {

class SystemClock final : public Clock {
 public:
  double now() override { return os::monotonic_s(); }
};

}  // namespace edgedec::engine
