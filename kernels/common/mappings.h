// Mappings of this process, as /proc/self/maps and smaps of Linux list them: see proc_pid_maps(5).
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec {

constexpr size_t kMappingLine = 4096 + 128;  // PATH_MAX and the numbers before the path

struct Mapping {
  uintptr_t begin = 0, end = 0;
  uint64_t offset = 0, inode = 0;
  bool code = false;           // it can run, and not be written; its writes would be private
  bool own = false;            // what is written there is this process's own
  const char* path = nullptr;  // points into the line; null: not a file's memory
};

// Reads a line, whose end of line goes; false for one that is no mapping.
bool parse_mapping(char* line, Mapping* found);

}  // namespace edgedec
