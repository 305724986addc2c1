// Memory, files, process and processor of macOS, as far as Linux has others.
#include <errno.h>
#include <fcntl.h>
#include <mach/mach.h>
#include <malloc/malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/clock.h"
#include "common/os/files.h"
#include "common/os/memory.h"
#include "common/os/process.h"

namespace edgedec::os {
namespace {

// Memory that the system accounts to this process: its own memory, compressed or not; clean pages of files are no part of it.
task_vm_info_data_t footprint() {
  task_vm_info_data_t found{};
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  if (task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&found), &count) != KERN_SUCCESS) return {};
  return found;
}

int number_named(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

}  // namespace

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Advice would leave the pages in the footprint until memory is short.
void give_back(void* pages, size_t bytes) {
  mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void prefer_large_pages(void*, size_t) {}
void prefer_small_pages(void*, size_t) {}
void trim_heap() { malloc_zone_pressure_relief(nullptr, 0); }

int own_pages(uint64_t begin, uint64_t size, bool) {
  for (uint64_t at = begin; at < begin + size; at += page_bytes()) {
    auto* byte = reinterpret_cast<volatile uint8_t*>(at);
    *byte = *byte;
  }
  return 0;
}

File open_for_places(const char* path, bool past_cache) {
  const File file = open_to_read(path);
  if (file != kNoFile && past_cache) fcntl(static_cast<int>(file), F_NOCACHE, 1);
  return file;
}

void read_through_cache(File file) { fcntl(static_cast<int>(file), F_NOCACHE, 0); }
void forget_cached(File, uint64_t, uint64_t) {}
File open_mapped(const uint8_t*, size_t, uint64_t*) { return kNoFile; }

void read_ahead(const char* path, uint64_t first, uint64_t bytes) {
  const File file = open_to_read(path);
  Facts found;
  const uint64_t size = file != kNoFile && facts(file, &found) ? found.size : 0;
  const uint64_t end = first + std::min(bytes, size - std::min(first, size));
  constexpr uint64_t kWindow = 64 << 20;
  for (uint64_t at = first; at < end; at += kWindow) {
    radvisory wanted{static_cast<off_t>(at), static_cast<int>(std::min(kWindow, end - at))};
    if (fcntl(static_cast<int>(file), F_RDADVISE, &wanted) != 0) break;
  }
  if (file != kNoFile) close(file);
}

int64_t rss_bytes() { return static_cast<int64_t>(footprint().phys_footprint); }
int64_t peak_rss_bytes() { return static_cast<int64_t>(footprint().ledger_phys_footprint_peak); }
int64_t mapped_rss_bytes(std::string_view) { return 0; }  // rss_bytes() has no part of them

int64_t available_bytes() {
  vm_statistics64_data_t found{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const mach_port_t host = mach_host_self();
  const bool done = host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&found), &count) == KERN_SUCCESS;
  mach_port_deallocate(mach_task_self(), host);
  if (!done) return -1;
  return static_cast<int64_t>((uint64_t{found.free_count} + found.inactive_count) * page_bytes());
}

std::vector<Mapping> mapped_spans(const std::string&) { return {}; }
void map_ahead(const char*, uint64_t) {}
void release_code() {}

int usable_cores() { return std::max(number_named("hw.activecpu"), 1); }

int physical_cores() {
  const int fast = number_named("hw.perflevel0.physicalcpu");
  return std::max(std::min(fast ? fast : number_named("hw.physicalcpu"), usable_cores()), 1);
}

std::string cpu_name() {
  char name[256];
  size_t size = sizeof name;
  return sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 && size > 1 ? std::string(name, size - 1) : "unknown";
}

std::optional<double> load_average() {
  double found = 0.0;
  if (getloadavg(&found, 1) != 1) return {};
  return found;
}

}  // namespace edgedec::os
