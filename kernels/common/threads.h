// Threads for the C ABI, which has no pool: started for each parallel section, ended with it. Only for tests.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "common/parallel.h"

namespace edgedec {

// How many threads calls of the C ABI use: edgedec_set_threads(). Not for calls from several threads.
inline int threads_per_call = 1;

class OwnThreads : public Parallel {
 public:
  void run(size_t n, void (*body)(void*, size_t), void* context) override {
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(context, i);
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads_per_call; ++t) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
  }
};

}  // namespace edgedec
