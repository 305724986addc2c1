// A lock of the operating system. std::mutex would need a C++ library that Android's has no part of.
#pragma once

#include <pthread.h>

namespace edgedec {

class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

 private:
  friend class Guard;
  friend class Unguarded;
  friend class Condition;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

// Holds a lock until the end of its scope.
class Guard {
 public:
  explicit Guard(Mutex& mutex) : mutex_(mutex.mutex_) { pthread_mutex_lock(&mutex_); }
  ~Guard() { pthread_mutex_unlock(&mutex_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// Lets others have a lock that this thread holds, until the end of its scope.
class Unguarded {
 public:
  explicit Unguarded(Mutex& mutex) : mutex_(mutex.mutex_) { pthread_mutex_unlock(&mutex_); }
  ~Unguarded() { pthread_mutex_lock(&mutex_); }
  Unguarded(const Unguarded&) = delete;
  Unguarded& operator=(const Unguarded&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// A change that threads wait for. The lock is free while one waits.
class Condition {
 public:
  void wait(Mutex& mutex) { pthread_cond_wait(&condition_, &mutex.mutex_); }
  void wake_all() { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace edgedec
