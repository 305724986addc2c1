// Threads that stay together over many parallel sections. A pool wakes and collects its threads for each section; here
// they meet at words in memory, and a word that two threads write costs more than a task's own work: each has its own.
#pragma once

#include <atomic>

#include "common/lock.h"
#include "common/parallel.h"

namespace edgedec {

// One thread leads: it runs `work`. The others help in every parallel section that `work` begins with run(). Correct with
// helpers that come late, never come, or come one after the other on one thread.
class Team : public Parallel {
 public:
  static constexpr size_t kMost = 32;

  // At most `threads` threads will join; beyond kMost they stay idle.
  Team(size_t threads, void (*work)(void* context), void* context)
      : shares_(threads < kMost ? threads : kMost), work_(work), context_(context), maker_(os::this_thread()) {}

  // A thread joins the team, and stays until `work` is done. The maker of the team leads where it comes in time: its
  // scratch is large already.
  void join() {
    const bool maker = os::same(os::this_thread(), maker_);
    for (int spins = 0; !maker && !led_.load(std::memory_order_relaxed) && spins < kSpins; ++spins) relax();
    if (led_.exchange(true, std::memory_order_relaxed)) return help();
    work_(context_);
    over_.store(true, std::memory_order_release);
  }

  size_t width() const override { return shares_; }

  void pause(bool paused) override {
    {
      const Guard guard(mutex_);
      paused_.store(paused, std::memory_order_relaxed);
    }
    if (!paused) resumed_.wake_all();
  }

  // Only for `work`, on the thread that leads, and for fewer than 2^32 tasks.
  void run(size_t n, void (*body)(void*, size_t), void* context) override {
    done_.store(0, std::memory_order_relaxed);
    ++sections_;
    for (size_t i = shares_; i-- > 0;) {
      // No task of the last section is left, so no thread uses what it reads here meanwhile.
      Share& share = share_[i];
      const size_t end = n * (i + 1) / shares_;
      share.body.store(body, std::memory_order_relaxed);
      share.context.store(context, std::memory_order_relaxed);
      share.end.store(end, std::memory_order_relaxed);
      share.left.store(sections_ << 32 | (end - n * i / shares_), std::memory_order_release);
    }
    take_all(0);
    for (int spins = 0; done_.load(std::memory_order_acquire) != n; ++spins) wait(spins);
  }

 private:
  // The tasks of a section that one thread begins with, in one line of cache.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};  // number of the section, and its tasks here that no thread has taken
    std::atomic<void (*)(void*, size_t)> body{nullptr};
    std::atomic<void*> context{nullptr};
    std::atomic<size_t> end{0};
  };

  void help() {
    const size_t own = helpers_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (own >= shares_) return;
    uint64_t seen = 0;
    for (int spins = 0; !over_.load(std::memory_order_acquire); ++spins) {
      const uint64_t left = share_[own].left.load(std::memory_order_relaxed) >> 32;
      if (left == seen) {
        spins >= kSpins && paused_.load(std::memory_order_relaxed) ? sleep() : wait(spins);
        continue;
      }
      seen = left;
      spins = 0;
      take_all(own);
    }
  }

  // Runs the tasks of a thread's own share, then those that are left of the others'.
  void take_all(size_t own) {
    size_t done = 0;
    for (size_t i = 0; i < shares_; ++i)
      while (take(share_[(own + i) % shares_])) ++done;
    if (done) done_.fetch_add(done, std::memory_order_release);
  }

  // Runs a task that no thread has taken; false where there is none.
  static bool take(Share& share) {
    uint64_t left = share.left.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(left)) {
      const auto body = share.body.load(std::memory_order_relaxed);
      void* const context = share.context.load(std::memory_order_relaxed);
      const size_t end = share.end.load(std::memory_order_relaxed);
      // Where this succeeds, the section still waits for that task, and what was read above belongs to it.
      if (!share.left.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) continue;
      body(context, end - static_cast<uint32_t>(left));
      return true;
    }
    return false;
  }

  void sleep() {
    const Guard guard(mutex_);
    while (paused_.load(std::memory_order_relaxed)) resumed_.wait(mutex_);
  }

  // For the destructor alone: a team lies on a stack, and a phone's library has no such function for aligned memory.
  static void operator delete(void*) {}

  static void wait(int spins) { spins < kSpins ? relax() : os::yield(); }

  const size_t shares_;
  void (*const work_)(void*);
  void* const context_;
  const os::ThreadId maker_;
  uint64_t sections_ = 0;
  std::atomic<bool> led_{false}, over_{false}, paused_{false};
  Mutex mutex_;
  Condition resumed_;
  std::atomic<size_t> helpers_{0};
  alignas(64) std::atomic<size_t> done_{0};
  Share share_[kMost];
};

}  // namespace edgedec
