// Memory of this process on Linux and Android, read from /proc.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/os/linux_mappings.h"
#include "common/os/memory.h"

namespace edgedec::os {
namespace {

constexpr int kMapNow = 22;  // MADV_POPULATE_READ of Linux 5.14; an older system does nothing

// Files of a control group: its limit, its use, and the key in memory.stat of pages that it can give up.
constexpr const char* kUnifiedFiles[] = {"memory.max", "memory.current", "inactive_file "};
constexpr const char* kFirstFiles[] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

struct Close {
  void operator()(FILE* file) const { fclose(file); }
};

// Calls `visit` with each line of a file of /proc, without its end.
template <class Visit>
void each_line(const char* path, Visit visit) {
  const std::unique_ptr<FILE, Close> file(fopen(path, "re"));
  char piece[512];
  std::string line;
  while (file && fgets(piece, sizeof piece, file.get())) {
    line += piece;
    if (line.back() != '\n') continue;
    line.pop_back();
    visit(std::string_view(line));
    line.clear();
  }
}

bool starts(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
bool ends(std::string_view text, std::string_view with) {
  return text.size() >= with.size() && text.substr(text.size() - with.size()) == with;
}

// The number in a line such as "VmRSS:     1234 kB", in bytes.
int64_t kilobytes(std::string_view line) {
  int64_t found = 0;
  for (char one : line.substr(line.find(':') + 1))
    if (one >= '0' && one <= '9') found = found * 10 + (one - '0');
  return found * 1024;
}

int64_t status(std::string_view name) {
  int64_t found = 0;
  each_line("/proc/self/status", [&](std::string_view line) {
    if (starts(line, name)) found = kilobytes(line);
  });
  return found;
}

// The whole number in a file of a control group, or behind `key` in it; -1: there is none, or no limit.
int64_t group_number(const std::string& path, std::string_view key = {}) {
  int64_t found = -1;
  each_line(path.c_str(), [&](std::string_view line) {
    if (!starts(line, key)) return;
    const std::string number(line.substr(key.size()));
    char* end = nullptr;
    const int64_t value = strtoll(number.c_str(), &end, 10);
    if (end != number.c_str() && found < 0) found = value;
  });
  return found;
}

// The least that any control group of this process has left; -1: none has a limit.
int64_t left_in_groups() {
  int64_t least = -1;
  each_line("/proc/self/cgroup", [&](std::string_view line) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    const bool unified = line.substr(0, first) == "0";
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    if (!unified && controllers.find(",memory,") == std::string::npos) return;
    const char* const* names = unified ? kUnifiedFiles : kFirstFiles;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string group(line.substr(second + 1));; group.resize(group.rfind('/'))) {
      while (!group.empty() && group.back() == '/') group.pop_back();
      const std::string folder = root + group + "/";
      const int64_t limit = group_number(folder + names[0]), used = group_number(folder + names[1]);
      const int64_t idle = std::max<int64_t>(group_number(folder + "memory.stat", names[2]), 0);
      if (limit >= 0 && used >= 0) {
        const int64_t left = std::max<int64_t>(limit - used + idle, 0);
        least = least < 0 ? left : std::min(least, left);
      }
      if (group.rfind('/') == std::string::npos) return;
    }
  });
  return least;
}

// Reads a number and moves *at behind it; false where none is.
bool number(const char** at, unsigned base, uint64_t* value) {
  const char* first = *at;
  for (*value = 0;; ++*at) {
    const char c = **at;
    const unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
    if (digit >= base) return *at != first;
    *value = *value * base + digit;
  }
}

// The next word: behind this one and blanks.
const char* word(const char* at) {
  while (*at && *at != ' ') ++at;
  while (*at == ' ') ++at;
  return at;
}

// Whether a line of smaps says that no page of the mapping was written to.
bool unwritten(const char* line) {
  constexpr char kSize[] = "Anonymous:";
  constexpr size_t kLength = sizeof kSize - 1;
  return std::strncmp(line, kSize, kLength) == 0 && std::strncmp(line + kLength + std::strspn(line + kLength, " "), "0 kB", 4) == 0;
}

}  // namespace

// Not by sscanf: the names under which C libraries export it differ.
bool parse_mapping(char* line, LinuxMapping* found) {
  line[std::strcspn(line, "\n")] = '\0';
  const char* at = line;
  uint64_t begin, end, device;
  if (!number(&at, 16, &begin) || *at++ != '-' || !number(&at, 16, &end)) return false;
  at = word(at);
  found->code = std::strncmp(at, "r-xp", 4) == 0;
  found->own = std::strncmp(at, "rw-p", 4) == 0;
  at = word(at);
  if (!number(&at, 16, &found->offset)) return false;
  at = word(at);
  if (!number(&at, 16, &device) || *at++ != ':' || !number(&at, 16, &device)) return false;
  if (!number(&(at = word(at)), 10, &found->inode)) return false;
  at = word(at);
  found->begin = static_cast<uintptr_t>(begin);
  found->end = static_cast<uintptr_t>(end);
  found->path = *at == '/' ? at : nullptr;
  return true;
}

int64_t rss_bytes() { return status("VmRSS:"); }

int64_t peak_rss_bytes() { return status("VmHWM:"); }

int64_t mapped_rss_bytes(std::string_view name) {
  const std::string ending = "/" + std::string(name);
  int64_t total = 0;
  bool inside = false;
  each_line("/proc/self/smaps", [&](std::string_view line) {
    if (starts(line, "Rss:"))
      total += inside ? kilobytes(line) : 0;
    else if (const std::string_view word = line.substr(0, line.find(' ')); word.empty() || word.back() != ':')
      inside = ends(line, ending);  // the next mapping
  });
  return total;
}

std::vector<Mapping> mapped_spans(const std::string& path) {
  std::vector<Mapping> found;
  char real[PATH_MAX];
  if (!realpath(path.c_str(), real)) return found;
  each_mapping([&](const LinuxMapping& one) {
    if (one.path && std::strcmp(one.path, real) == 0) found.push_back(one);
    return true;
  });
  return found;
}

void map_ahead(const char* path, uint64_t first) {
  const uintptr_t page = page_bytes();
  for (const Mapping& one : mapped_spans(path)) {
    const uint64_t before = first > one.offset ? first - one.offset : 0;
    if (before >= one.end - one.begin) continue;
    const uintptr_t begin = one.begin + static_cast<uintptr_t>(before) / page * page;
    madvise(reinterpret_cast<void*>(begin), one.end - begin, kMapNow);
  }
}

void release_code() {
  FILE* maps = fopen("/proc/self/smaps", "re");
  if (!maps) return;
  char line[kMappingLine];
  LinuxMapping last;
  while (fgets(line, sizeof line, maps)) {
    if (!parse_mapping(line, &last) && last.code && last.inode && unwritten(line))
      madvise(reinterpret_cast<void*>(last.begin), last.end - last.begin, MADV_DONTNEED);
  }
  fclose(maps);
}

int64_t available_bytes() {
  int64_t machine = -1;
  each_line("/proc/meminfo", [&](std::string_view line) {
    if (starts(line, "MemAvailable:")) machine = kilobytes(line);
  });
  const int64_t groups = left_in_groups();
  return machine < 0 || groups < 0 ? machine : std::min(machine, groups);
}

}  // namespace edgedec::os
