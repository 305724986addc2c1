#include "engine/web/threads.h"

#include <cstdint>

namespace edgedec::engine {

#ifdef __wasm_atomics__
namespace {

// Threads that wait at a word in memory for the next section, first by looking at it, then asleep.
class Hall {
 public:
  size_t helpers() const { return helpers_.load(std::memory_order_relaxed); }

  // Runs the tasks of a section on the caller's thread, which is always the same, and on helpers that come in time.
  void run(size_t n, void (*body)(void*, size_t), void* context) {
    if (!helpers()) {
      for (size_t i = 0; i < n; ++i) body(context, i);
      return;
    }
    done_.store(0, std::memory_order_relaxed);
    body_.store(body, std::memory_order_relaxed);
    context_.store(context, std::memory_order_relaxed);
    end_.store(n, std::memory_order_relaxed);
    left_.store(++sections_ << 32 | n);
    if (asleep_.load()) {
      bell_.fetch_add(1);
      __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&bell_), kAll);
    }
    while (take()) {
    }
    while (done_.load(std::memory_order_acquire) != n) relax();
  }

  void help() {
    helpers_.fetch_add(1, std::memory_order_relaxed);
    for (int looks = 0;; ++looks) {
      if (take()) looks = 0;
      else if (looks >= kLooks) sleep(), looks = 0;
    }
  }

 private:
  static constexpr uint32_t kAll = ~uint32_t{0};
  static constexpr int kLooks = 1 << 14;  // some 50 us: ops of a pass follow each other sooner

  // Runs a task that no thread has taken; false where there is none.
  bool take() {
    uint64_t left = left_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(left)) {
      const auto body = body_.load(std::memory_order_relaxed);
      void* const context = context_.load(std::memory_order_relaxed);
      const size_t end = end_.load(std::memory_order_relaxed);
      // Where this succeeds, the section still waits for that task, and what was read above belongs to it.
      if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) continue;
      body(context, end - static_cast<uint32_t>(left));
      done_.fetch_add(1, std::memory_order_release);
      return true;
    }
    return false;
  }

  // Sleeps until a section begins: it rings for those that it finds asleep, and they look once more before they sleep.
  void sleep() {
    const uint32_t before = bell_.load();
    asleep_.fetch_add(1);
    if (!static_cast<uint32_t>(left_.load()))
      __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&bell_), static_cast<int>(before), -1);
    asleep_.fetch_sub(1);
  }

  std::atomic<uint64_t> left_{0};  // number of the section, and its tasks that no thread has taken
  std::atomic<void (*)(void*, size_t)> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<size_t> end_{0}, done_{0}, helpers_{0};
  std::atomic<uint32_t> bell_{0}, asleep_{0};
  uint64_t sections_ = 0;
};

Hall hall;

class PageThreads final : public Parallel {
 public:
  size_t width() const override { return 1 + hall.helpers(); }
  void run(size_t n, void (*body)(void*, size_t), void* context) override { hall.run(n, body, context); }
};

}  // namespace

std::unique_ptr<Parallel> page_threads() { return std::make_unique<PageThreads>(); }

void help_on_page() { hall.help(); }
#else
std::unique_ptr<Parallel> page_threads() { return std::make_unique<Serial>(); }

void help_on_page() {}
#endif

}  // namespace edgedec::engine
