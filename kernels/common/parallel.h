// Splitting work over threads that somebody else owns (ONNX Runtime's pool; none in the C ABI for tests).
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

// Work that every task of a section needs done first, in pieces that its threads share. It costs no section of its
// own: a thread that joins late finds pieces done, one that joins early does some of them.
class SharedPieces {
 public:
  explicit SharedPieces(size_t count) : count_(count) {}

  // Call it at the start of every task. Calls body(i) for pieces that no thread has taken, then waits for those that
  // other threads still compute; on return all are done. The body must not throw: others would wait for ever.
  template <class Body>
  void finish(const Body& body) {
    if (done_.load(std::memory_order_acquire) == count_) return;
    for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      body(i);
      done_.fetch_add(1, std::memory_order_release);
    }
    for (int spins = 0; done_.load(std::memory_order_acquire) != count_; ++spins)
      if (spins >= kSpins) std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 1000;  // a piece takes a microsecond; longer waits mean that its thread was suspended

  const size_t count_;
  std::atomic<size_t> next_{0}, done_{0};
};

enum class Scratch {
  kActs, kActScales, kActSums, kRest, kTerms, kFine, kGate, kUp, kLogits, kKept, kQuery, kScores, kPaths, kTableTile, kCount
};

// Bytes of exactly the size asked for: one that is too small is given back before a larger one is taken.
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

// Scratch that a thread keeps between calls, so that decoding does not allocate. Contents are undefined. One slot
// per purpose: two buffers alive at once on one thread need two slots.
template <class T>
T* scratch(Scratch slot, size_t n) {
  static thread_local Buffer buffers[static_cast<int>(Scratch::kCount)];
  return static_cast<T*>(buffers[static_cast<int>(slot)].at_least(n * sizeof(T) + 1));
}

}  // namespace edgedec
