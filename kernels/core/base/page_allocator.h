// An allocator for large arrays: whole pages of the system, which go back to it at once, and elements that are not
// initialised. The C library's heap would keep holes of megabytes between rows of logits.
#pragma once

#include <stdlib.h>
#if !defined(__wasm__)
#include <sys/mman.h>
#endif

#include <cstddef>
#include <new>
#include <utility>

namespace edgedec::engine {

template <class T>
struct PageAllocator {
  using value_type = T;

  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}

#if defined(__wasm__)
  T* allocate(size_t count) {
    void* found = malloc(count * sizeof(T));
    if (!found) abort();
    return static_cast<T*>(found);
  }
  void deallocate(T* data, size_t) { free(data); }
#else
  T* allocate(size_t count) {
    void* found = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) abort();  // as operator new ends a program without exceptions
    return static_cast<T*>(found);
  }
  void deallocate(T* data, size_t count) { munmap(data, count * sizeof(T)); }
#endif
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
