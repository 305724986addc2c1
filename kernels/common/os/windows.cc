// Memory, threads, libraries and time of Windows.
#include "common/os/windows_text.h"
// Behind <windows.h>.
#include <process.h>

#include <malloc.h>

#include <new>

#include "common/os/clock.h"
#include "common/os/library.h"
#include "common/os/memory.h"
#include "common/os/threads.h"

namespace edgedec::os {
namespace {

SRWLOCK* system_lock(void** lock) { return reinterpret_cast<SRWLOCK*>(lock); }
CONDITION_VARIABLE* system_condition(void** condition) { return reinterpret_cast<CONDITION_VARIABLE*>(condition); }
static_assert(sizeof(SRWLOCK) == sizeof(void*) && sizeof(CONDITION_VARIABLE) == sizeof(void*) && sizeof(INIT_ONCE) == sizeof(void*));

struct Begin {
  void* (*run)(void*);
  void* context;
};

unsigned __stdcall begin(void* opaque) {
  const Begin its = *static_cast<Begin*>(opaque);
  delete static_cast<Begin*>(opaque);
  its.run(its.context);
  return 0;
}

BOOL CALLBACK run_once(INIT_ONCE*, void* once, void**) {
  reinterpret_cast<void (*)()>(once)();
  return TRUE;
}

}  // namespace

size_t page_bytes() {
  SYSTEM_INFO found;
  GetSystemInfo(&found);
  return found.dwPageSize;
}

void* take_pages(size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }
void* reserve_pages(size_t bytes) { return take_pages(bytes); }  // the system promises all memory that it gives
void return_pages(void* pages, size_t) { VirtualFree(pages, 0, MEM_RELEASE); }

void give_back(void* pages, size_t bytes) {
  VirtualAlloc(pages, bytes, MEM_RESET, PAGE_READWRITE);  // their contents need no longer be kept
  VirtualUnlock(pages, bytes);                            // pages that are not locked leave the working set
}

void prefer_large_pages(void*, size_t) {}
void prefer_small_pages(void*, size_t) {}
void* take_aligned(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
void free_aligned(void* memory) { _aligned_free(memory); }
void trim_heap() { HeapCompact(GetProcessHeap(), 0); }
int own_pages(uint64_t, uint64_t, bool) { return 0; }  // mapped_spans() finds none

ThreadId this_thread() { return GetCurrentThreadId(); }
void yield() { SwitchToThread(); }

void Mutex::lock() { AcquireSRWLockExclusive(system_lock(&lock_)); }
bool Mutex::try_lock() { return TryAcquireSRWLockExclusive(system_lock(&lock_)); }
void Mutex::unlock() { ReleaseSRWLockExclusive(system_lock(&lock_)); }

void Condition::wait(Mutex& mutex) { SleepConditionVariableSRW(system_condition(&condition_), system_lock(&mutex.lock_), INFINITE, 0); }
void Condition::wake_all() { WakeAllConditionVariable(system_condition(&condition_)); }

bool Thread::start(void* (*run)(void*), void* context) {
  constexpr unsigned kStackBytes = 8 << 20;  // as on Linux
  auto* its = new (std::nothrow) Begin{run, context};
  if (!its) return false;
  handle_ = reinterpret_cast<void*>(_beginthreadex(nullptr, kStackBytes, begin, its, STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr));
  if (!handle_) delete its;
  return handle_ != nullptr;
}

void Thread::join() {
  WaitForSingleObject(handle_, INFINITE);
  CloseHandle(handle_);
}

bool ThreadSlot::make(void (*end)(void*)) {
  HMODULE self;
  const auto address = reinterpret_cast<const wchar_t*>(end);
  if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, address, &self)) return false;
  key_ = FlsAlloc(reinterpret_cast<PFLS_CALLBACK_FUNCTION>(end));
  return key_ != FLS_OUT_OF_INDEXES;
}

void* ThreadSlot::get() const { return FlsGetValue(key_); }
bool ThreadSlot::set(void* value) { return FlsSetValue(key_, value); }

void call_once(OnceFlag* flag, void (*once)()) {
  InitOnceExecuteOnce(reinterpret_cast<INIT_ONCE*>(flag), run_once, reinterpret_cast<void*>(once), nullptr);
}

void* load_library(const char* path, std::string* why) {
  const bool place = std::string_view(path).find_first_of("/\\") != std::string_view::npos;
  std::wstring name = native(path);
  if (place) {  // the system looks for what it needs beside it, where its place is whole
    std::wstring whole(GetFullPathNameW(name.c_str(), 0, nullptr, nullptr), L'\0');
    if (!whole.empty()) whole.resize(GetFullPathNameW(name.c_str(), static_cast<DWORD>(whole.size()), &whole[0], nullptr));
    name = whole;
  }
  if (HMODULE library = LoadLibraryExW(name.c_str(), nullptr, place ? LOAD_WITH_ALTERED_SEARCH_PATH : 0)) return library;
  const DWORD error = GetLastError();
  wchar_t text[512];
  DWORD size = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr, error, 0, text,
                              sizeof text / sizeof *text, nullptr);
  while (size && (text[size - 1] == L'\n' || text[size - 1] == L'\r' || text[size - 1] == L'.')) --size;
  *why = std::string(path) + ": error " + std::to_string(error) + (size ? ", " + utf8({text, size}) : "");
  return nullptr;
}

void* find_function(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

double monotonic_s() {
  LARGE_INTEGER now, each;
  QueryPerformanceCounter(&now);
  QueryPerformanceFrequency(&each);
  const int64_t whole = now.QuadPart / each.QuadPart, rest = now.QuadPart % each.QuadPart;
  return static_cast<double>(whole) + static_cast<double>(rest) / static_cast<double>(each.QuadPart);
}

double wall_s() {
  constexpr int64_t kUnitsToUnixTime = 116'444'736'000'000'000;  // 100 ns each, from 1601 to 1970
  FILETIME now;
  GetSystemTimePreciseAsFileTime(&now);
  return 1e-7 * static_cast<double>((int64_t{now.dwHighDateTime} << 32 | now.dwLowDateTime) - kUnitsToUnixTime);
}

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_s(&local, &now);
  return local;
}

std::optional<double> load_average() { return {}; }

}  // namespace edgedec::os
