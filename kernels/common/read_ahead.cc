#include "common/read_ahead.h"

#include "common/capi.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#endif

namespace edgedec {

#ifdef __linux__
namespace {

constexpr uint64_t kLargePage = 2 << 20;
constexpr uint64_t kWindow = 64 << 20;  // mapped at a time, so that the process never holds more of the file for this
constexpr int kPopulateRead = 22;       // MADV_POPULATE_READ of Linux 5.14: as a read, but a bad disk is an error, no signal

// The first byte of every large page is enough: where none is mapped, the system reads all of it at once.
bool read_window(int file, uint64_t first, uint64_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, static_cast<off_t>(first));
  if (pages == MAP_FAILED) return false;
  bool done = madvise(pages, bytes, MADV_HUGEPAGE) == 0;
  for (uint64_t at = 0; done && at < bytes; at += kLargePage)
    done = madvise(static_cast<char*>(pages) + at, 1, kPopulateRead) == 0;
  munmap(pages, bytes);
  return done;
}

}  // namespace

void read_ahead(const char* path, uint64_t first, uint64_t bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  struct stat facts;
  const uint64_t size = fstat(file, &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
  const uint64_t end = first + std::min(bytes, size - std::min(first, size));
  for (uint64_t at = first / kLargePage * kLargePage; at < end; at += kWindow)
    if (!read_window(file, at, std::min(kWindow, end - at))) break;
  close(file);
}
#else
void read_ahead(const char*, uint64_t, uint64_t) {}
#endif

}  // namespace edgedec

EDGEDEC_EXPORT void edgedec_read_ahead(const char* path, uint64_t first, uint64_t bytes) {
  edgedec::read_ahead(path, first, bytes);
}
