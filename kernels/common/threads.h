// Threads for the C ABI, which has no pool: started for each parallel section, ended with it. Only for tests.
#pragma once

#include <atomic>

#include "common/parallel.h"

namespace edgedec {

// How many threads calls of the C ABI use: edgedec_set_threads(). Not for calls from several threads.
inline int threads_per_call = 1;

// Runs work() on this thread and on `count` - 1 others; on fewer where the system starts no more.
template <class Work>
void on_threads(int count, Work& work) {
  constexpr int kMost = 256;
  os::Thread others[kMost];
  int started = 0;
  const auto run = [](void* opaque) -> void* {
    (*static_cast<Work*>(opaque))();
    return nullptr;
  };
  while (started + 1 < count && started < kMost && others[started].start(run, &work)) ++started;
  work();
  for (int i = 0; i < started; ++i) others[i].join();
}

class OwnThreads : public Parallel {
 public:
  size_t width() const override { return static_cast<size_t>(threads_per_call); }
  void run(size_t n, void (*body)(void*, size_t), void* context) override {
    std::atomic<size_t> next{0};
    auto work = [&] {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(context, i);
    };
    on_threads(threads_per_call, work);
  }
};

}  // namespace edgedec
