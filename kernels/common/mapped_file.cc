#include "common/mapped_file.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#endif

namespace edgedec {

#ifdef __linux__
namespace {

// One line of /proc/self/maps, see proc_pid_maps(5).
struct Mapping {
  uintptr_t begin = 0, end = 0;
  uint64_t offset = 0, inode = 0;
  const char* path = nullptr;  // points into the line; null: not a file's memory
};

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

// Not by sscanf: the names under which C libraries export it differ.
bool parse(char* line, Mapping* found) {
  line[std::strcspn(line, "\n")] = '\0';
  const char* at = line;
  uint64_t begin, end, device;
  if (!number(&at, 16, &begin) || *at++ != '-' || !number(&at, 16, &end)) return false;
  at = word(word(at));  // behind the permissions
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

// Opens the mapped file; -1 when another file has taken its name.
int open_same(const Mapping& mapping) {
  const int file = open(mapping.path, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  if (file >= 0 && (fstat(file, &facts) != 0 || facts.st_ino != mapping.inode)) {
    close(file);
    return -1;
  }
  return file;
}

}  // namespace

MappedFile::MappedFile(const uint8_t* data, size_t size) : data_(data) {
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return;
  const auto first = reinterpret_cast<uintptr_t>(data);
  char line[4096 + 128];  // PATH_MAX and the numbers before the path
  while (std::fgets(line, sizeof line, maps)) {
    Mapping mapping;
    if (!parse(line, &mapping) || first < mapping.begin || first >= mapping.end) continue;
    if (mapping.path && size <= mapping.end - first) {
      file_ = open_same(mapping);
      start_ = mapping.offset + (first - mapping.begin);
    }
    break;
  }
  std::fclose(maps);
}

MappedFile::~MappedFile() {
  if (file_ >= 0) close(file_);
}

const uint8_t* MappedFile::read(size_t at, size_t n, uint8_t* room) const {
  for (size_t done = 0; file_ >= 0;) {
    const ssize_t got = pread(file_, room + done, n - done, static_cast<off_t>(start_ + at + done));
    if (got <= 0) break;  // read from memory instead; a mapping whose file was cut ends the process
    if ((done += static_cast<size_t>(got)) == n) return room;
  }
  return data_ + at;
}
#else
MappedFile::MappedFile(const uint8_t* data, size_t) : data_(data) {}
MappedFile::~MappedFile() = default;
const uint8_t* MappedFile::read(size_t at, size_t, uint8_t*) const { return data_ + at; }
#endif

}  // namespace edgedec
