#include "common/process_pages.h"

#include "common/capi.h"

#ifdef __linux__
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/mappings.h"
#endif

namespace edgedec {

#ifdef __linux__
namespace {

constexpr int kMapNow = 22;  // MADV_POPULATE_READ of Linux 5.14; an older system does nothing
// Whether a line of smaps says that no page of the mapping was written to.
bool unwritten(const char* line) {
  constexpr char kSize[] = "Anonymous:";
  constexpr size_t kLength = sizeof kSize - 1;
  return std::strncmp(line, kSize, kLength) == 0 && std::strncmp(line + kLength + std::strspn(line + kLength, " "), "0 kB", 4) == 0;
}

}  // namespace

void release_code() {
  FILE* maps = std::fopen("/proc/self/smaps", "re");
  if (!maps) return;
  char line[kMappingLine];
  Mapping last;
  while (std::fgets(line, sizeof line, maps)) {
    if (!parse_mapping(line, &last) && last.code && last.inode && unwritten(line))
      madvise(reinterpret_cast<void*>(last.begin), last.end - last.begin, MADV_DONTNEED);
  }
  std::fclose(maps);
}

void map_ahead(const char* path, uint64_t first) {
  char real[PATH_MAX], line[kMappingLine];
  FILE* maps = realpath(path, real) ? std::fopen("/proc/self/maps", "re") : nullptr;
  if (!maps) return;
  const auto page = static_cast<uintptr_t>(getauxval(AT_PAGESZ));
  Mapping one;
  while (std::fgets(line, sizeof line, maps)) {
    if (!parse_mapping(line, &one) || !one.path || std::strcmp(one.path, real) != 0) continue;
    const uint64_t before = first > one.offset ? first - one.offset : 0;
    if (before >= one.end - one.begin) continue;
    const uintptr_t begin = one.begin + static_cast<uintptr_t>(before) / page * page;
    madvise(reinterpret_cast<void*>(begin), one.end - begin, kMapNow);
  }
  std::fclose(maps);
}
#else
void release_code() {}
void map_ahead(const char*, uint64_t) {}
#endif

}  // namespace edgedec

EDGEDEC_EXPORT void edgedec_release_code() { edgedec::release_code(); }

EDGEDEC_EXPORT void edgedec_map_ahead(const char* path, uint64_t first) { edgedec::map_ahead(path, first); }
