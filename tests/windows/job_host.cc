// Sizes and places of structs that Python's file for Windows has by hand, and calls that limit this process's memory, by the compiler's
// winnt.h: a number a line, in the order of tests/windows/test_jobs.py.
#include <windows.h>
// Behind <windows.h>.
#include <psapi.h>

#include <cstddef>
#include <cstdio>

int main() {
  using Limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION;
  Limits limits{};
  PROCESS_MEMORY_COUNTERS counters{};
  const HANDLE job = CreateJobObjectW(nullptr, nullptr), process = GetCurrentProcess();
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_PROCESS_MEMORY;
  limits.ProcessMemoryLimit = size_t{1} << 30;
  const size_t found[] = {
      sizeof(Limits),
      offsetof(Limits, BasicLimitInformation.LimitFlags),
      offsetof(Limits, ProcessMemoryLimit),
      sizeof counters,
      offsetof(PROCESS_MEMORY_COUNTERS, PagefileUsage),
      JobObjectExtendedLimitInformation,
      JOB_OBJECT_LIMIT_PROCESS_MEMORY,
      STATUS_STACK_BUFFER_OVERRUN,
      static_cast<size_t>(K32GetProcessMemoryInfo(process, &counters, sizeof counters)),
      static_cast<size_t>(AssignProcessToJobObject(job, process)),
      static_cast<size_t>(SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)),
      static_cast<size_t>(SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits - 8)),
  };
  for (size_t one : found) std::printf("%zu\n", one);
  return 0;
}
