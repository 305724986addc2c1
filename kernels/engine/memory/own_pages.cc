#include "engine/memory/own_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/capi.h"
#include "core/base/page.h"

namespace edgedec::engine {
namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14: as if each page were written

// Gives the process a copy of its own of each page: what is written is no longer the file's. Zero, or errno.
int copy_pages(uint64_t begin, uint64_t size, bool old) {
  if (!old && madvise(reinterpret_cast<void*>(begin), size, kPopulateWrite) == 0) return 0;
  if (!old && errno != EINVAL) return errno;
  for (uint64_t at = begin; at < begin + size; at += static_cast<uint64_t>(page_bytes())) {
    auto* byte = reinterpret_cast<volatile uint8_t*>(at);
    *byte = *byte;
  }
  return 0;
}

// The same for all that make_own() says. `old`: as where the system does not know that advice.
int make_own_pages(const std::string& path, const std::vector<Mapping>& before, uint64_t table_bytes, bool uncached, bool old) {
  const auto page = static_cast<uint64_t>(page_bytes());
  const int file = uncached ? open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
  int error = 0;
  for (const Mapping& one : mapped_spans(path)) {
    const auto same = [&](const Mapping& other) { return one.begin == other.begin && one.end == other.end && one.offset == other.offset; };
    if (!one.own || error || std::any_of(before.begin(), before.end(), same)) continue;
    const uint64_t table = table_bytes - std::min(table_bytes, one.offset), span = one.end - one.begin;
    const uint64_t begin = one.begin + std::min(table, span) / page * page;
    if (begin == one.end) continue;
    error = copy_pages(begin, one.end - begin, old);
#ifdef POSIX_FADV_DONTNEED
    if (file >= 0)
      posix_fadvise(file, static_cast<off_t>(one.offset + begin - one.begin), static_cast<off_t>(one.end - begin), POSIX_FADV_DONTNEED);
#endif
  }
  if (file >= 0) close(file);
  return error;
}

}  // namespace

Status make_own(const std::string& path, const std::vector<Mapping>& before, uint64_t table_bytes, bool uncached) {
  const int error = make_own_pages(path, before, table_bytes, uncached, false);
  return error ? Status(Code::kBackend, std::string("the weights cannot be read into memory: ") + std::strerror(error)) : Status();
}

}  // namespace edgedec::engine

using namespace edgedec::engine;

// make_own() with `before` as begin, end and offset of `count` mappings. Zero, or errno. `old`: as on a system before Linux 5.14.
EDGEDEC_EXPORT int edgedec_make_own(const char* path, const uint64_t* before, size_t count, uint64_t table_bytes, int uncached, int old) {
  std::vector<edgedec::Mapping> spans(count);
  for (size_t at = 0; at < count; ++at) {
    spans[at].begin = before[3 * at];
    spans[at].end = before[3 * at + 1];
    spans[at].offset = before[3 * at + 2];
  }
  return make_own_pages(path, spans, table_bytes, uncached != 0, old != 0);
}
