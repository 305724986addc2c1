// Locks, held to the end of a scope.
#pragma once

#include "common/os/threads.h"

namespace edgedec {

using os::Condition;
using os::Mutex;

// Holds a lock until the end of its scope.
class Guard {
 public:
  explicit Guard(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Guard() { mutex_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Mutex& mutex_;
};

// Lets others have a lock that this thread holds, until the end of its scope.
class Unguarded {
 public:
  explicit Unguarded(Mutex& mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~Unguarded() { mutex_.lock(); }
  Unguarded(const Unguarded&) = delete;
  Unguarded& operator=(const Unguarded&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace edgedec
