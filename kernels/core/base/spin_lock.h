// A lock that is held for nanoseconds. A phone's library has no C++ library beside it, and so no std::mutex.
#pragma once

#include <atomic>

namespace edgedec::engine {

class SpinLock {
 public:
  void lock() {
    while (taken_.test_and_set(std::memory_order_acquire)) continue;
  }
  void unlock() { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
};

// Holds a lock for as long as it lives.
class Held {
 public:
  explicit Held(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Held() { lock_.unlock(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace edgedec::engine
