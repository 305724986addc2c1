// An allocator for large arrays: whole pages of the system, which go back to it at once, and elements that are not
// initialised. The C library's heap would keep holes of megabytes between rows of logits.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#include "common/os/memory.h"

namespace edgedec::engine {

template <class T>
struct PageAllocator {
  using value_type = T;

  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}

  T* allocate(size_t count) {
    void* found = os::take_pages(count * sizeof(T));
    if (!found) std::abort();  // as operator new ends a program without exceptions
    return static_cast<T*>(found);
  }
  void deallocate(T* data, size_t count) { os::return_pages(data, count * sizeof(T)); }
  template <class U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... From>
  void construct(U* at, From&&... from) {
    ::new (static_cast<void*>(at)) U(std::forward<From>(from)...);
  }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }
  friend bool operator!=(const PageAllocator&, const PageAllocator&) { return false; }
};

}  // namespace edgedec::engine
