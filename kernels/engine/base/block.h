// Large memory: zeroed pages that are taken when they are first written to, and given back at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/base/status.h"

namespace edgedec::engine {

class Block {
 public:
  Block() = default;
  ~Block() { release(); }
  Block(Block&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    if (this != &other) {
      release();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Takes `size` bytes, aligned to a page, in place of what was held. `what` names them in the error.
  Status allocate(size_t size, const char* what);
  void release();

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace edgedec::engine
