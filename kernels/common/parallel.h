// Splits work over threads that the caller provides: ONNX Runtime's pool, or common/threads.h in the C ABI.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <thread>

namespace edgedec {

class Parallel {
 public:
  virtual ~Parallel() = default;
  // Calls body(context, i) for every i in [0, n), in any order and on any thread; returns when all are done.
  virtual void run(size_t n, void (*body)(void* context, size_t i), void* context) = 0;
};

class Serial : public Parallel {
 public:
  void run(size_t n, void (*body)(void*, size_t), void* context) override {
    for (size_t i = 0; i < n; ++i) body(context, i);
  }
};

template <class Body>
void parallel_for(Parallel& threads, size_t n, Body& body) {
  if (n == 1) return body(size_t{0});
  threads.run(n, [](void* context, size_t i) { (*static_cast<Body*>(context))(i); }, &body);
}

// Work that every task of a parallel section needs done first, in pieces that the threads of that section share. It
// needs no section of its own: a thread that joins early computes some pieces, one that joins late finds them done.
class SharedPieces {
 public:
  explicit SharedPieces(size_t count) : count_(count) {}

  // Call it at the start of every task. Calls body(i) for every piece that no thread has taken, then waits for the
  // pieces of other threads; on return all are done. The body must not throw, or the other threads would wait forever.
  template <class Body>
  void finish(const Body& body) {
    if (done_.load(std::memory_order_acquire) == count_) return;
    for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      body(i);
      done_.fetch_add(1, std::memory_order_release);
    }
    for (int spins = 0; done_.load(std::memory_order_acquire) != count_; ++spins)
      spins < kSpins ? relax() : std::this_thread::yield();
  }

 private:
  // 30 to 500 us, by CPU. A piece takes microseconds, and on a busy machine a yield costs milliseconds: only a thread
  // that was suspended is worth one.
  static constexpr int kSpins = 1 << 13;

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  const size_t count_;
  std::atomic<size_t> next_{0}, done_{0};
};

enum class Scratch {
  kActs, kActScales, kActSums, kActTotals, kRest, kTerms, kFine, kGate, kUp, kLogits, kKept, kQuery, kScores,
  kPaths, kTableTile, kCount
};

// Memory that grows to exactly the requested size; the old block is freed before the new one is allocated.
class Buffer {
 public:
  ~Buffer() { release(); }

  void* at_least(size_t bytes) {
    if (bytes > size_) {
      release();
      data_ = ::operator new(bytes, kAlignment);
      size_ = bytes;
    }
    return data_;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};

  void release() {
    ::operator delete(data_, kAlignment);
    data_ = nullptr;
    size_ = 0;
  }

  void* data_ = nullptr;
  size_t size_ = 0;
};

// Scratch memory that a thread keeps between calls, so that decoding does not allocate. Contents are undefined. Two
// buffers in use at the same time on one thread need two names.
template <class T>
T* scratch(Scratch slot, size_t n) {
  static thread_local Buffer buffers[static_cast<int>(Scratch::kCount)];
  return static_cast<T*>(buffers[static_cast<int>(slot)].at_least(n * sizeof(T) + 1));
}

}  // namespace edgedec
