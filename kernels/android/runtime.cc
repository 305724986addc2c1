// Functions that the C++ compiler expects of a runtime, on Android, over libc alone.
//
// Android has no C++ library of the system, and the one of Debian's compiler needs glibc. The library uses templates of
// headers only, and no exceptions; what is left is this file. Memory that the engine may do without is asked for
// without `new` (engine/base/block.h, common/scratch.h), so `new` ends the program where a few bytes cannot be had.
#include <sched.h>
#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

extern "C" {

int __android_log_write(int priority, const char* tag, const char* text);
int* __errno(void);

// The address in which glibc's headers look for errno.
__attribute__((visibility("hidden"))) int* __errno_location() { return __errno(); }

__attribute__((visibility("hidden"))) void* __dso_handle = &__dso_handle;

[[noreturn]] static void give_up(const char* reason) {
  constexpr int kFatal = 7;
  __android_log_write(kFatal, "edgedec", reason);
  abort();
}

// Whether shared pointers may count without atomic operations.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

[[noreturn]] void __cxa_pure_virtual() { give_up("a call of a function that does not exist"); }

// A guard of a static variable: its first byte says whether the variable is there, its second whether a thread makes it.
int __cxa_guard_acquire(uint64_t* guard) {
  auto* state = reinterpret_cast<std::atomic<uint8_t>*>(guard);
  for (;;) {
    if (state[0].load(std::memory_order_acquire)) return 0;
    if (!state[1].exchange(1, std::memory_order_acquire)) break;
    sched_yield();
  }
  if (!state[0].load(std::memory_order_acquire)) return 1;
  state[1].store(0, std::memory_order_release);
  return 0;
}

void __cxa_guard_release(uint64_t* guard) {
  auto* state = reinterpret_cast<std::atomic<uint8_t>*>(guard);
  state[0].store(1, std::memory_order_release);
  state[1].store(0, std::memory_order_release);
}

}  // extern "C"

namespace std {

const nothrow_t nothrow{};

template class basic_string<char>;  // headers expect it in the C++ library

// Containers call these where a size or an index cannot be.
[[noreturn]] void __throw_length_error(const char* what) { give_up(what); }
[[noreturn]] void __throw_logic_error(const char* what) { give_up(what); }
[[noreturn]] void __throw_out_of_range_fmt(const char* what, ...) { give_up(what); }
[[noreturn]] void __throw_bad_alloc() { give_up("not enough memory"); }
[[noreturn]] void __throw_bad_array_new_length() { give_up("not enough memory"); }

// Asked where the tag of make_shared has another address, as in another library: none hands over shared pointers.
bool _Sp_make_shared_tag::_S_eq(const type_info&) noexcept { return false; }

}  // namespace std

void* operator new(size_t size, const std::nothrow_t&) noexcept { return malloc(size ? size : 1); }
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  void* found = nullptr;
  return posix_memalign(&found, static_cast<size_t>(alignment), size ? size : 1) == 0 ? found : nullptr;
}
void* operator new(size_t size) {
  void* found = operator new(size, std::nothrow);
  return found ? found : (give_up("not enough memory"), nullptr);
}
void* operator new(size_t size, std::align_val_t alignment) {
  void* found = operator new(size, alignment, std::nothrow);
  return found ? found : (give_up("not enough memory"), nullptr);
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t& nothrow) noexcept { return operator new(size, nothrow); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
