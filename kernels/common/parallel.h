// Splitting work over threads that somebody else owns (ONNX Runtime's pool; none in the C ABI for tests).
#pragma once

#include <cstddef>
#include <vector>

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

// Scratch that a thread keeps between calls, so that decoding does not allocate. Contents are undefined. One slot
// per purpose: two buffers alive at once on one thread need two slots.
enum class Scratch { kActs, kActScales, kActSums, kRest, kTerms, kFine, kGate, kUp, kLogits, kKept, kQuery, kScores, kPaths, kCount };

template <class T>
T* scratch(Scratch slot, size_t n) {
  static thread_local std::vector<char> buffers[static_cast<int>(Scratch::kCount)];
  std::vector<char>& buffer = buffers[static_cast<int>(slot)];
  if (buffer.size() < n * sizeof(T) + 64) buffer.resize(n * sizeof(T) + 64);
  const size_t address = reinterpret_cast<size_t>(buffer.data());
  return reinterpret_cast<T*>((address + 63) / 64 * 64);
}

}  // namespace edgedec
