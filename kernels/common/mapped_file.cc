#include "common/mapped_file.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "common/mappings.h"
#endif

namespace edgedec {

#ifdef __linux__
namespace {

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
  char line[kMappingLine];
  while (std::fgets(line, sizeof line, maps)) {
    Mapping mapping;
    if (!parse_mapping(line, &mapping) || first < mapping.begin || first >= mapping.end) continue;
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
