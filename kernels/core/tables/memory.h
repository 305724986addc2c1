// A zeroed table of fixed size. Pages that nobody has written to take no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace edgedec::draft {

constexpr size_t kLine = 64;  // bytes of a cache line; tables are aligned to it

template <class T>
class Table {
 public:
  explicit Table(size_t size) : size_(size) {
    if (size <= (SIZE_MAX - kLine) / sizeof(T)) memory_.reset(std::calloc(size * sizeof(T) + kLine, 1));
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    data_ = reinterpret_cast<T*>((address + kLine - 1) / kLine * kLine);
  }
  explicit operator bool() const { return memory_ != nullptr; }  // whether the memory was allocated
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  size_t nbytes() const { return size_ * sizeof(T); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  size_t size_;
  std::unique_ptr<void, Free> memory_;
  T* data_;
};

}  // namespace edgedec::draft
