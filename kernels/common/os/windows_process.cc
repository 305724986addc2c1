// Memory of this process, and the cores, on Windows.
#include "common/os/windows_text.h"
// Behind <windows.h>.
#include <psapi.h>

#include <algorithm>

#include "common/os/memory.h"
#include "common/os/process.h"

namespace edgedec::os {
namespace {

PROCESS_MEMORY_COUNTERS counters() {
  PROCESS_MEMORY_COUNTERS found{};
  found.cb = sizeof found;
  if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &found, sizeof found)) return {};
  return found;
}

// Bytes of a stretch of memory whose pages are in the working set.
int64_t resident(char* begin, size_t size) {
  const size_t page = page_bytes();
  constexpr size_t kAtOnce = 1024;
  std::vector<PSAPI_WORKING_SET_EX_INFORMATION> pages;
  int64_t found = 0;
  for (size_t at = 0; at < size; at += pages.size() * page) {
    pages.assign(std::min((size - at + page - 1) / page, kAtOnce), {});
    for (size_t i = 0; i < pages.size(); ++i) pages[i].VirtualAddress = begin + at + i * page;
    if (!K32QueryWorkingSetEx(GetCurrentProcess(), pages.data(), static_cast<DWORD>(pages.size() * sizeof pages[0]))) return found;
    for (const auto& one : pages) found += one.VirtualAttributes.Valid ? static_cast<int64_t>(page) : 0;
  }
  return found;
}

// The cores of this process's group of processors that it may use.
uint64_t affinity() {
  DWORD_PTR own = 0, all = 0;
  return GetProcessAffinityMask(GetCurrentProcess(), &own, &all) ? own : 0;
}

struct Core {
  uint64_t mask;
  int efficiency;  // the higher, the faster
};

std::vector<Core> cores() {
  DWORD size = 0;
  GetLogicalProcessorInformationEx(RelationProcessorCore, nullptr, &size);
  std::vector<char> data(size);
  auto* first = reinterpret_cast<SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX*>(data.data());
  if (!size || !GetLogicalProcessorInformationEx(RelationProcessorCore, first, &size)) return {};
  std::vector<Core> found;
  for (DWORD at = 0; at < size;) {
    const auto* one = reinterpret_cast<const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX*>(data.data() + at);
    found.push_back({one->Processor.GroupMask[0].Mask, one->Processor.EfficiencyClass});
    at += one->Size;
  }
  return found;
}

}  // namespace

uint64_t process_number() { return GetCurrentProcessId(); }

int64_t rss_bytes() { return static_cast<int64_t>(counters().WorkingSetSize); }
int64_t peak_rss_bytes() { return static_cast<int64_t>(counters().PeakWorkingSetSize); }

int64_t mapped_rss_bytes(std::string_view name) {
  const std::wstring ending = L"\\" + wide(name);
  int64_t total = 0;
  MEMORY_BASIC_INFORMATION one;
  for (char* at = nullptr; VirtualQuery(at, &one, sizeof one) == sizeof one; at = static_cast<char*>(one.BaseAddress) + one.RegionSize) {
    if (one.Type != MEM_MAPPED || one.State != MEM_COMMIT) continue;
    wchar_t file[1024];
    const std::wstring_view path(file, K32GetMappedFileNameW(GetCurrentProcess(), one.BaseAddress, file, std::size(file)));
    if (path.size() >= ending.size() && path.substr(path.size() - ending.size()) == ending)
      total += resident(static_cast<char*>(one.BaseAddress), one.RegionSize);
  }
  return total;
}

int64_t available_bytes() {
  MEMORYSTATUSEX found{};
  found.dwLength = sizeof found;
  return GlobalMemoryStatusEx(&found) ? static_cast<int64_t>(found.ullAvailPhys) : -1;
}

std::vector<Mapping> mapped_spans(const std::string&) { return {}; }
void map_ahead(const char*, uint64_t) {}
void release_code() {}

int usable_cores() {
  const uint64_t own = affinity();  // none for a process of several groups
  return std::max(own ? __builtin_popcountll(own) : static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)), 1);
}

int physical_cores() {
  const uint64_t own = affinity();
  std::vector<Core> usable = cores();
  usable.erase(std::remove_if(usable.begin(), usable.end(), [&](const Core& one) { return own && !(one.mask & own); }), usable.end());
  int count = static_cast<int>(usable.size());
#if defined(__aarch64__)
  int best = 0;
  for (const Core& one : usable) best = std::max(best, one.efficiency);
  count = static_cast<int>(std::count_if(usable.begin(), usable.end(), [&](const Core& one) { return one.efficiency == best; }));
#endif
  return std::max(std::min(count ? count : 1, usable_cores()), 1);
}

std::string cpu_name() {
  wchar_t name[256];
  DWORD size = sizeof name;
  const LSTATUS status = RegGetValueW(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0", L"ProcessorNameString",
                                      RRF_RT_REG_SZ, nullptr, name, &size);
  if (status != ERROR_SUCCESS || size <= sizeof *name) return "unknown";
  std::wstring_view text(name, size / sizeof *name - 1);
  while (!text.empty() && text.back() == L' ') text.remove_suffix(1);
  while (!text.empty() && text.front() == L' ') text.remove_prefix(1);
  return text.empty() ? "unknown" : utf8(text);
}

}  // namespace edgedec::os
