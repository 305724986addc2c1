#include "engine/memory/process.h"

#include <stdio.h>
#include <stdlib.h>

#include <memory>

namespace edgedec::engine {
namespace {

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

// The bytes of a mapping by a line such as "7f00-8f00 r--p ...".
int64_t span_bytes(std::string_view line) {
  uint64_t edges[2] = {0, 0};
  int edge = 0;
  for (char one : line) {
    if (one == ' ') break;
    if (one == '-') {
      edge = 1;
      continue;
    }
    edges[edge] = edges[edge] * 16 + static_cast<uint64_t>(one <= '9' ? one - '0' : one - 'a' + 10);
  }
  return static_cast<int64_t>(edges[1] - edges[0]);
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

int64_t mapped_bytes(const std::string& path) {
  const std::unique_ptr<char, Free> real(realpath(path.c_str(), nullptr));
  if (!real) return 0;
  const std::string ending = std::string(" ") + real.get();
  int64_t total = 0;
  each_line("/proc/self/maps", [&](std::string_view line) {
    if (ends(line, ending)) total += span_bytes(line);
  });
  return total;
}

}  // namespace edgedec::engine
