// A view of elements that somebody else owns.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

namespace edgedec::engine {

template <class T>
class Span {
 public:
  Span() = default;
  Span(T* data, size_t size) : data_(data), size_(size) {}
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
  Span(const std::vector<U>& all) : data_(all.data()), size_(all.size()) {}
  template <class U, class = std::enable_if_t<std::is_same_v<U, T>>>
  Span(std::vector<U>& all) : data_(all.data()), size_(all.size()) {}

  T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t at) const { return data_[at]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  Span first(size_t count) const { return {data_, count < size_ ? count : size_}; }
  Span from(size_t at) const { return at < size_ ? Span{data_ + at, size_ - at} : Span{}; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace edgedec::engine
