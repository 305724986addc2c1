#include "engine/memory/process.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>

namespace edgedec::engine {
namespace {

// Files of a control group: its limit, its use, and the key in memory.stat of pages that it can give up.
constexpr const char* kUnifiedFiles[] = {"memory.max", "memory.current", "inactive_file "};
constexpr const char* kFirstFiles[] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

struct Close {
  void operator()(FILE* file) const { fclose(file); }
};
struct Free {
  void operator()(char* text) const { free(text); }
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

}  // namespace

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
  const std::unique_ptr<char, Free> real(realpath(path.c_str(), nullptr));
  if (!real) return found;
  const std::string ending = std::string(" ") + real.get();
  each_line("/proc/self/maps", [&](std::string_view line) {
    std::string copy(line);
    Mapping one;
    if (!ends(line, ending) || !parse_mapping(&copy[0], &one)) return;
    one.path = nullptr;
    found.push_back(one);
  });
  return found;
}

int64_t bytes_of(const std::vector<Mapping>& spans) {
  int64_t total = 0;
  for (const Mapping& one : spans) total += static_cast<int64_t>(one.end - one.begin);
  return total;
}

int64_t mapped_bytes(const std::string& path) { return bytes_of(mapped_spans(path)); }

int64_t available_bytes() {
  int64_t machine = -1;
  each_line("/proc/meminfo", [&](std::string_view line) {
    if (starts(line, "MemAvailable:")) machine = kilobytes(line);
  });
  const int64_t groups = left_in_groups();
  return machine < 0 || groups < 0 ? machine : std::min(machine, groups);
}

}  // namespace edgedec::engine
