// Mutual exclusion of threads.
#pragma once

#include <atomic>

#include "common/lock.h"

namespace edgedec::engine {

using Lock = edgedec::Guard;

// Something that one thread sets and others see.
class Flag {
 public:
  void set() { on_.store(true, std::memory_order_release); }
  void clear() { on_.store(false, std::memory_order_release); }
  bool is_set() const { return on_.load(std::memory_order_acquire); }
  // Sets it; returns whether it was not set before.
  bool claim() { return !on_.exchange(true, std::memory_order_acq_rel); }

 private:
  std::atomic<bool> on_{false};
};

}  // namespace edgedec::engine
