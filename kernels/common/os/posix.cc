// Memory, libraries and time of Linux, Android and macOS.
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/os/clock.h"
#include "common/os/library.h"
#include "common/os/memory.h"
#include "common/os/process.h"

namespace edgedec::os {
namespace {

void* mapped(size_t bytes, int flags) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return found == MAP_FAILED ? nullptr : found;
}

double read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void* take_pages(size_t bytes) { return mapped(bytes, 0); }
void* reserve_pages(size_t bytes) { return mapped(bytes, MAP_NORESERVE); }
void return_pages(void* pages, size_t bytes) { munmap(pages, bytes); }

void* take_aligned(size_t alignment, size_t bytes) {
  void* found = nullptr;
  return posix_memalign(&found, alignment, bytes) == 0 ? found : nullptr;
}

void free_aligned(void* memory) { free(memory); }

void* load_library(const char* path, std::string* why) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  const char* said = dlerror();
  *why = said ? said : path;
  return nullptr;
}

void* find_function(void* library, const char* name) { return dlsym(library, name); }

double monotonic_s() {
#if defined(__APPLE__)
  return read_clock(CLOCK_UPTIME_RAW);  // it stands still while the machine sleeps, as Python's
#else
  return read_clock(CLOCK_MONOTONIC);
#endif
}

double wall_s() { return read_clock(CLOCK_REALTIME); }

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

uint64_t process_number() { return static_cast<uint64_t>(getpid()); }

}  // namespace edgedec::os
