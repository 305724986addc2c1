// Splits work over threads that the caller provides: ONNX Runtime's pool, or common/threads.h in the C ABI.
#pragma once

#include <atomic>
#include <cstddef>

#include "common/os/threads.h"
#include "common/scratch.h"

namespace edgedec {

class Parallel {
 public:
  virtual ~Parallel() = default;
  // Calls body(context, i) for every i in [0, n), in any order and on any thread; returns when all are done.
  virtual void run(size_t n, void (*body)(void* context, size_t i), void* context) = 0;
  // Threads that share a section, or 0 where that is not known. A multiple of them is a good number of tasks.
  virtual size_t width() const { return 0; }
  // Whether the thread that begins sections now waits for something slow: others that wait for a section may sleep.
  virtual void pause(bool) {}

  // A task that gets no memory says so and returns. The thread that began the section asks when it has ended, and ends too; the
  // results are undefined then.
  void lack_memory() { lacks_memory_.store(true, std::memory_order_relaxed); }
  bool lacks_memory() const { return lacks_memory_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> lacks_memory_{false};
};

class Serial : public Parallel {
 public:
  size_t width() const override { return 1; }
  void run(size_t n, void (*body)(void*, size_t), void* context) override {
    for (size_t i = 0; i < n; ++i) body(context, i);
  }
};

template <class Body>
void parallel_for(Parallel& threads, size_t n, Body& body) {
  if (n == 1) return body(size_t{0});
  threads.run(n, [](void* context, size_t i) { (*static_cast<Body*>(context))(i); }, &body);
}

// Rounds of waiting for another thread before a yield: 30 to 500 us, by CPU. A piece takes microseconds, and on a busy
// machine a yield costs milliseconds: only a thread that was suspended is worth one.
constexpr int kSpins = 1 << 13;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Work that every task of a parallel section needs done first, in pieces that the threads of that section share. It
// needs no section of its own: a thread that joins early computes some pieces, one that joins late finds them done.
class SharedPieces {
 public:
  explicit SharedPieces(size_t count) : count_(count) {}

  // Call it at the start of every task. Calls body(i) for every piece that no thread has taken, then waits for the
  // pieces of other threads; on return all are done.
  template <class Body>
  void finish(const Body& body) {
    if (done_.load(std::memory_order_acquire) == count_) return;
    size_t own = 0;
    for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_; ++own) body(i);
    if (own) done_.fetch_add(own, std::memory_order_release);
    for (int spins = 0; done_.load(std::memory_order_acquire) != count_; ++spins)
      spins < kSpins ? relax() : os::yield();
  }

 private:
  const size_t count_;
  std::atomic<size_t> next_{0}, done_{0};
};

}  // namespace edgedec
