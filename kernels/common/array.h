// A growing array that says when there is no memory: std::vector would throw, and the library has no exceptions.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace edgedec {

template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>, "elements move with realloc");

 public:
  Array() = default;
  ~Array() { std::free(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  // False where there is not enough memory; the array is unchanged then. Further elements are not initialised.
  [[nodiscard]] bool resize(size_t size) {
    if (size > room_ && !grow(size)) return false;
    size_ = size;
    return true;
  }
  [[nodiscard]] bool push_back(const T& element) {
    if (size_ == room_ && !grow(size_ + 1)) return false;
    data_[size_++] = element;
    return true;
  }
  [[nodiscard]] bool append(const T* elements, size_t count) {
    if (count > room_ - size_ && !grow(size_ + count)) return false;
    if (count) std::memcpy(data_ + size_, elements, count * sizeof(T));
    size_ += count;
    return true;
  }
  void pop_back() { --size_; }
  void erase(T* at) {
    std::memmove(at, at + 1, static_cast<size_t>(end() - at - 1) * sizeof(T));
    --size_;
  }
  void cut(T* end) { size_ = static_cast<size_t>(end - data_); }
  void clear() { size_ = 0; }
  void swap(Array& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
  }

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  bool grow(size_t least) {
    size_t room = room_ * 2 > least ? room_ * 2 : least;
    if (room < 8) room = 8;
    if (room > static_cast<size_t>(-1) / sizeof(T)) return false;
    void* moved = std::realloc(data_, room * sizeof(T));
    if (!moved) return false;
    data_ = static_cast<T*>(moved);
    room_ = room;
    return true;
  }

  T* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

}  // namespace edgedec
