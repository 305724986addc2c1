// The size of a page of memory: 4 KiB on most machines, 16 KiB on newer phones.
#pragma once

#include <cstdint>

#if defined(__linux__)
#include <sys/auxv.h>
#else
#include <unistd.h>
#endif

namespace edgedec::engine {

// Not from sysconf on Linux: the numbers of its settings are others in Android's C library than in glibc's headers.
inline int64_t page_bytes() {
#if defined(__linux__)
  constexpr unsigned long kPageSize = 6;  // AT_PAGESZ
  return static_cast<int64_t>(getauxval(kPageSize));
#else
  return sysconf(_SC_PAGESIZE);
#endif
}

}  // namespace edgedec::engine
