// Mappings of this process, as /proc/self/maps and smaps list them: see proc_pid_maps(5).
#pragma once

#include <cstdio>

#include "common/os/process.h"

namespace edgedec::os {

struct LinuxMapping : Mapping {
  uint64_t inode = 0;
  bool code = false;           // it can run, and not be written; its writes would be private
  const char* path = nullptr;  // points into the line; null: not a file's memory
};

constexpr size_t kMappingLine = 4096 + 128;  // PATH_MAX and the numbers before the path

// Reads a line, whose end of line goes; false for one that is no mapping.
bool parse_mapping(char* line, LinuxMapping* found);

// Calls `visit` with each mapping until it returns false.
template <class Visit>
void each_mapping(const Visit& visit) {
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return;
  char line[kMappingLine];
  LinuxMapping one;
  while (std::fgets(line, sizeof line, maps))
    if (parse_mapping(line, &one) && !visit(one)) break;
  std::fclose(maps);
}

}  // namespace edgedec::os
