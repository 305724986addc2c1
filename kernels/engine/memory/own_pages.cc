#include "engine/memory/own_pages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/capi.h"
#include "common/os/files.h"
#include "common/os/memory.h"

namespace edgedec::engine {
namespace {

// Gives this process pages of its own, as make_own() says. `old`: as where the system has no call for it. Zero, or errno.
int make_own_pages(const std::string& path, const std::vector<os::Mapping>& before, uint64_t table_bytes, bool uncached, bool old) {
  const auto page = uint64_t{os::page_bytes()};
  const os::File file = uncached ? os::open_to_read(path.c_str()) : os::kNoFile;
  int error = 0;
  for (const os::Mapping& one : os::mapped_spans(path)) {
    const auto same = [&](const os::Mapping& other) { return one.begin == other.begin && one.end == other.end && one.offset == other.offset; };
    if (!one.own || error || std::any_of(before.begin(), before.end(), same)) continue;
    const uint64_t table = table_bytes - std::min(table_bytes, one.offset), span = one.end - one.begin;
    const uint64_t begin = one.begin + std::min(table, span) / page * page;
    if (begin == one.end) continue;
    error = os::own_pages(begin, one.end - begin, old);
    if (file != os::kNoFile) os::forget_cached(file, one.offset + begin - one.begin, one.end - begin);
  }
  if (file != os::kNoFile) os::close(file);
  return error;
}

}  // namespace

int64_t bytes_of(const std::vector<os::Mapping>& spans) {
  int64_t total = 0;
  for (const os::Mapping& one : spans) total += static_cast<int64_t>(one.end - one.begin);
  return total;
}

Status make_own(const std::string& path, const std::vector<os::Mapping>& before, uint64_t table_bytes, bool uncached) {
  const int error = make_own_pages(path, before, table_bytes, uncached, false);
  return error ? Status(Code::kBackend, std::string("the weights cannot be read into memory: ") + std::strerror(error)) : Status();
}

}  // namespace edgedec::engine

using namespace edgedec::engine;

// make_own() with `before` as begin, end and offset of `count` mappings. Zero, or errno. `old`: as on a system before Linux 5.14.
EDGEDEC_EXPORT int edgedec_make_own(const char* path, const uint64_t* before, size_t count, uint64_t table_bytes, int uncached, int old) {
  std::vector<edgedec::os::Mapping> spans(count);
  for (size_t at = 0; at < count; ++at) {
    spans[at].begin = before[3 * at];
    spans[at].end = before[3 * at + 1];
    spans[at].offset = before[3 * at + 2];
  }
  return make_own_pages(path, spans, table_bytes, uncached != 0, old != 0);
}
