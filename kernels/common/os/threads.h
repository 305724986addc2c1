// Threads, locks, and memory of a thread. Not those of <thread> and <mutex>: a phone's library has no part of a C++ library.
#pragma once

#if !defined(_WIN32)
#include <pthread.h>
#include <sched.h>
#endif

namespace edgedec::os {

#if defined(_WIN32)

using ThreadId = unsigned long;
ThreadId this_thread();
inline bool same(ThreadId a, ThreadId b) { return a == b; }

// Lets another thread have this core.
void yield();

// Static locks and conditions are there before any code runs: all bits of the system's are zero.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock();
  bool try_lock();
  void unlock();

 private:
  friend class Condition;
  void* lock_ = nullptr;
};

// A change that threads wait for. The lock is free while one waits.
class Condition {
 public:
  void wait(Mutex& mutex);
  void wake_all();

 private:
  void* condition_ = nullptr;
};

class Thread {
 public:
  // Whether the system starts it.
  bool start(void* (*run)(void*), void* context);
  void join();

 private:
  void* handle_ = nullptr;
};

// A pointer of each thread. `end` is called with it when the thread ends, so a library with one stays loaded.
class ThreadSlot {
 public:
  // Whether the system has one.
  bool make(void (*end)(void*));
  void* get() const;
  bool set(void* value);

 private:
  unsigned long key_ = 0;
};

// Runs `once` once, before any call with the same flag returns.
using OnceFlag = void*;
constexpr OnceFlag kNotYet = nullptr;
void call_once(OnceFlag* flag, void (*once)());

#else

using ThreadId = pthread_t;
inline ThreadId this_thread() { return pthread_self(); }
inline bool same(ThreadId a, ThreadId b) { return pthread_equal(a, b) != 0; }

inline void yield() { sched_yield(); }

class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() { pthread_mutex_lock(&mutex_); }
  bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  friend class Condition;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

class Condition {
 public:
  void wait(Mutex& mutex) { pthread_cond_wait(&condition_, &mutex.mutex_); }
  void wake_all() { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

class Thread {
 public:
  bool start(void* (*run)(void*), void* context) { return pthread_create(&thread_, nullptr, run, context) == 0; }
  void join() { pthread_join(thread_, nullptr); }

 private:
  pthread_t thread_{};
};

// A key and not thread_local: Android has thread-local variables of a library only from its tenth version on.
class ThreadSlot {
 public:
  bool make(void (*end)(void*)) { return pthread_key_create(&key_, end) == 0; }
  void* get() const { return pthread_getspecific(key_); }
  bool set(void* value) { return pthread_setspecific(key_, value) == 0; }

 private:
  pthread_key_t key_{};
};

using OnceFlag = pthread_once_t;
constexpr OnceFlag kNotYet = PTHREAD_ONCE_INIT;
inline void call_once(OnceFlag* flag, void (*once)()) { pthread_once(flag, once); }

#endif

}  // namespace edgedec::os
