// Mutual exclusion of threads.
#pragma once

#include <pthread.h>

#include <atomic>

namespace edgedec::engine {

class Mutex {
 public:
  Mutex() { pthread_mutex_init(&mutex_, nullptr); }
  ~Mutex() { pthread_mutex_destroy(&mutex_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() { pthread_mutex_lock(&mutex_); }
  bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

// Holds a mutex to the end of a block.
class Lock {
 public:
  explicit Lock(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

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
