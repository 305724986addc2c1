// Numbers of bytes that stop at 2^62 instead of overflowing: a model whose manifest states absurd sizes never fits.
#pragma once

#include <cstdint>

namespace edgedec::engine {

class Size {
 public:
  static constexpr int64_t kMost = int64_t{1} << 62;

  constexpr Size(int64_t count = 0) : count_(count < kMost ? count : kMost) {}
  constexpr int64_t count() const { return count_; }

  friend Size operator+(Size a, Size b) { return a.count_ > kMost - b.count_ ? kMost : a.count_ + b.count_; }
  friend Size operator*(Size a, Size b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a.count_, b.count_, &product) ? kMost : product;
  }

 private:
  int64_t count_;
};

// n / by, rounded up; neither is negative, and `by` is not 0.
constexpr int64_t divided_up(int64_t n, int64_t by) { return n / by + (n % by != 0); }

}  // namespace edgedec::engine
