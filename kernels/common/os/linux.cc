// Memory and files of Linux and Android, as far as macOS has others.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/os/files.h"
#include "common/os/linux_mappings.h"
#include "common/os/memory.h"

namespace edgedec::os {
namespace {

// Advice of Linux 5.14, by value: as if pages were read, and a bad disk is an error instead of a signal; as if they were written.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;
constexpr uint64_t kLargePage = 2 << 20;
constexpr uint64_t kWindow = 64 << 20;  // mapped at a time, so that the process never holds more of the file for this

// The first byte of every large page is enough: where none is mapped, the system reads all of it at once.
bool read_window(File file, uint64_t first, uint64_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, static_cast<int>(file), static_cast<off_t>(first));
  if (pages == MAP_FAILED) return false;
  bool done = madvise(pages, bytes, MADV_HUGEPAGE) == 0;
  for (uint64_t at = 0; done && at < bytes; at += kLargePage)
    done = madvise(static_cast<char*>(pages) + at, 1, kPopulateRead) == 0;
  munmap(pages, bytes);
  return done;
}

}  // namespace

// Not from sysconf: the numbers of its settings are others in Android's C library than in glibc's headers.
size_t page_bytes() {
  constexpr unsigned long kPageSize = 6;  // AT_PAGESZ
  return static_cast<size_t>(getauxval(kPageSize));
}

void give_back(void* pages, size_t bytes) { madvise(pages, bytes, MADV_DONTNEED); }
void prefer_large_pages(void* pages, size_t bytes) { madvise(pages, bytes, MADV_HUGEPAGE); }
void prefer_small_pages(void* pages, size_t bytes) { madvise(pages, bytes, MADV_NOHUGEPAGE); }

void trim_heap() {
#if defined(EDGEDEC_ANDROID)
  constexpr int kPurge = -101;  // of Android's <malloc.h>; its versions before 9 do nothing
  mallopt(kPurge, 0);
#elif defined(__GLIBC__)
  malloc_trim(0);
#endif
}

int own_pages(uint64_t begin, uint64_t size, bool old) {
  if (!old && madvise(reinterpret_cast<void*>(begin), size, kPopulateWrite) == 0) return 0;
  if (!old && errno != EINVAL) return errno;
  for (uint64_t at = begin; at < begin + size; at += page_bytes()) {
    auto* byte = reinterpret_cast<volatile uint8_t*>(at);
    *byte = *byte;
  }
  return 0;
}

File open_for_places(const char* path, bool past_cache) {
  if (!past_cache) return open_to_read(path);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  return file >= 0 || errno != EINVAL ? file : open_to_read(path);  // some file systems have no such reads
}

// Some file systems, and disks with large blocks, refuse reads past the cache only when it comes to them.
void read_through_cache(File file) {
  if (const int flags = fcntl(static_cast<int>(file), F_GETFL); flags >= 0) fcntl(static_cast<int>(file), F_SETFL, flags & ~O_DIRECT);
}

void forget_cached(File file, uint64_t first, uint64_t bytes) {
  posix_fadvise(static_cast<int>(file), static_cast<off_t>(first), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

File open_mapped(const uint8_t* data, size_t size, uint64_t* start) {
  const auto first = reinterpret_cast<uintptr_t>(data);
  File file = kNoFile;
  each_mapping([&](const LinuxMapping& one) {
    if (first < one.begin || first >= one.end) return true;
    if (!one.path || size > one.end - first) return false;
    struct stat found;
    file = ::open(one.path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && (fstat(static_cast<int>(file), &found) != 0 || found.st_ino != one.inode)) {
      close(file);
      file = kNoFile;
    }
    *start = one.offset + (first - one.begin);
    return false;
  });
  return file;
}

void read_ahead(const char* path, uint64_t first, uint64_t bytes) {
  const File file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  Facts found;
  const uint64_t size = facts(file, &found) ? found.size : 0;
  const uint64_t end = first + std::min(bytes, size - std::min(first, size));
  for (uint64_t at = first / kLargePage * kLargePage; at < end; at += kWindow)
    if (!read_window(file, at, std::min(kWindow, end - at))) break;
  close(file);
}

}  // namespace edgedec::os
