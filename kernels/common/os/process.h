// This process and its machine: memory, and the cores that it may use. edgedec/system/ says the same in Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace edgedec::os {

uint64_t process_number();

// Physical memory that this process holds now, mapped files included; 0 if unknown.
int64_t rss_bytes();
// The most physical memory that it has held; 0 if unknown.
int64_t peak_rss_bytes();
// The part of rss_bytes in pages of files called `name`; 0 if unknown.
int64_t mapped_rss_bytes(std::string_view name);
// Memory that new work may take without swapping; -1 if unknown. A control group, as of a container, may leave less than the
// machine has.
int64_t available_bytes();

// Pages of a file in this process.
struct Mapping {
  uintptr_t begin = 0, end = 0;
  uint64_t offset = 0;
  bool own = false;  // what is written there is this process's own
};

// Where the file at `path` is mapped; nothing where the system does not say from which offsets, as all but Linux.
std::vector<Mapping> mapped_spans(const std::string& path);
// Maps the pages of a file from byte `first` on, wherever the file is mapped. A pass would map 64 KiB at each page fault,
// which took a third of the time of the first one over SmolLM2-135M. Linux only.
void map_ahead(const char* path, uint64_t first);
// Lets go of pages of code that have a file with every byte of them. Those in use come back when they run next. Linux only.
void release_code();

// The logical cores that this process may use: its affinity, and at most its CPU quota.
int usable_cores();
// The usable cores; hyperthreads, which share bandwidth, count once. Where cores differ, as on phones, only the fast ones:
// a pass takes as long as its slowest thread.
int physical_cores();
// The processor's name; "unknown" where the system does not tell.
std::string cpu_name();

}  // namespace edgedec::os
