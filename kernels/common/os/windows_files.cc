// Files of Windows.
#include <errno.h>

#include <algorithm>

#include "common/os/files.h"
#include "common/os/windows_text.h"

namespace edgedec::os {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;
constexpr DWORD kShared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr DWORD kFolders = FILE_FLAG_BACKUP_SEMANTICS;  // a folder opens too, and then says that it is one
constexpr size_t kLongest = 240;                        // of a path that needs no mark
constexpr std::wstring_view kMark = L"\\\\?\\", kShare = L"\\\\?\\UNC\\";

HANDLE handle_of(File file) { return reinterpret_cast<HANDLE>(file); }

// kNoFile is the value of INVALID_HANDLE_VALUE.
File opened(const char* path, DWORD access, DWORD share, DWORD how, DWORD flags) {
  const HANDLE file = CreateFileW(native(path).c_str(), access, share, nullptr, how, flags, nullptr);
  if (file == INVALID_HANDLE_VALUE) failed();
  return reinterpret_cast<File>(file);
}

bool starts(std::wstring_view text, std::wstring_view with) { return text.substr(0, with.size()) == with; }

// A read from a place of a file that several threads read at once: it has an event of its own to wait for.
bool read_place(HANDLE file, void* data, DWORD size, uint64_t at, DWORD* got) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(at);
  place.OffsetHigh = static_cast<DWORD>(at >> 32);
  place.hEvent = CreateEventW(nullptr, TRUE, FALSE, nullptr);
  if (!place.hEvent) return false;
  bool done = ReadFile(file, data, size, nullptr, &place) || GetLastError() == ERROR_IO_PENDING;
  done = done && GetOverlappedResult(file, &place, got, TRUE);
  const DWORD error = GetLastError();
  CloseHandle(place.hEvent);
  SetLastError(error);
  return done;
}

}  // namespace

std::wstring wide(std::string_view text) {
  std::wstring found(text.size(), L'\0');  // never more units than bytes
  const int size = text.empty() ? 0 : MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), &found[0],
                                                          static_cast<int>(found.size()));
  found.resize(static_cast<size_t>(std::max(size, 0)));
  return found;
}

std::string utf8(std::wstring_view text) {
  std::string found(3 * text.size(), '\0');
  const int size = text.empty() ? 0 : WideCharToMultiByte(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), &found[0],
                                                          static_cast<int>(found.size()), nullptr, nullptr);
  found.resize(static_cast<size_t>(std::max(size, 0)));
  return found;
}

std::wstring native(const char* path) {
  std::wstring found = wide(path);
  if (found.size() <= kLongest || starts(found, kMark)) return found;
  std::wstring whole(GetFullPathNameW(found.c_str(), 0, nullptr, nullptr), L'\0');
  if (whole.empty()) return found;
  whole.resize(GetFullPathNameW(found.c_str(), static_cast<DWORD>(whole.size()), &whole[0], nullptr));
  if (starts(whole, L"\\\\")) return std::wstring(kShare) + whole.substr(2);
  return std::wstring(kMark) + whole;
}

bool failed() {
  switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND: case ERROR_PATH_NOT_FOUND: case ERROR_INVALID_NAME: case ERROR_BAD_PATHNAME: case ERROR_BAD_NETPATH:
      errno = ENOENT;
      break;
    case ERROR_ACCESS_DENIED: case ERROR_SHARING_VIOLATION: case ERROR_LOCK_VIOLATION: case ERROR_USER_MAPPED_FILE:
      errno = EACCES;
      break;
    case ERROR_FILE_EXISTS: case ERROR_ALREADY_EXISTS: errno = EEXIST; break;
    case ERROR_DIRECTORY: errno = ENOTDIR; break;
    case ERROR_WRITE_PROTECT: errno = EROFS; break;
    case ERROR_DISK_FULL: case ERROR_HANDLE_DISK_FULL: errno = ENOSPC; break;
    case ERROR_TOO_MANY_OPEN_FILES: errno = EMFILE; break;
    case ERROR_NOT_ENOUGH_MEMORY: case ERROR_OUTOFMEMORY: case ERROR_COMMITMENT_LIMIT: errno = ENOMEM; break;
    case ERROR_INVALID_PARAMETER: errno = EINVAL; break;
    default: errno = EIO;
  }
  return false;
}

File open_to_read(const char* path) { return opened(path, GENERIC_READ, kShared, OPEN_EXISTING, kFolders); }

File open_for_places(const char* path, bool past_cache) {
  return opened(path, GENERIC_READ, kShared, OPEN_EXISTING, FILE_FLAG_OVERLAPPED | (past_cache ? FILE_FLAG_NO_BUFFERING : 0));
}

File create_new(const char* path) {
  return opened(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
}

bool close(File file) { return CloseHandle(handle_of(file)) || failed(); }

int64_t read(File file, void* data, size_t size) {
  DWORD got = 0;
  if (ReadFile(handle_of(file), data, static_cast<DWORD>(std::min(size, kMostAtOnce)), &got, nullptr)) return got;
  return GetLastError() == ERROR_HANDLE_EOF ? 0 : (failed(), -1);
}

int64_t read_at(File file, void* data, size_t size, uint64_t at) {
  DWORD got = 0;
  const auto most = static_cast<DWORD>(std::min(size, kMostAtOnce));
  if (read_place(handle_of(file), data, most, at, &got)) return got;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  if (GetLastError() != ERROR_INVALID_PARAMETER) return failed(), -1;
  // A disk with larger blocks than pages refuses reads past the cache.
  const HANDLE again = ReOpenFile(handle_of(file), GENERIC_READ, kShared, FILE_FLAG_OVERLAPPED);
  if (again == INVALID_HANDLE_VALUE) return failed(), -1;
  const bool done = read_place(again, data, most, at, &got);
  if (!done) failed();
  CloseHandle(again);
  return done ? static_cast<int64_t>(got) : -1;
}

void read_through_cache(File) {}  // read_at() does it

int64_t write(File file, const void* data, size_t size) {
  DWORD done = 0;
  if (WriteFile(handle_of(file), data, static_cast<DWORD>(std::min(size, kMostAtOnce)), &done, nullptr)) return done;
  return failed(), -1;
}

bool flush(File file) { return FlushFileBuffers(handle_of(file)) || failed(); }

bool facts(File file, Facts* found) {
  BY_HANDLE_FILE_INFORMATION facts;
  if (GetFileType(handle_of(file)) != FILE_TYPE_DISK) return *found = Facts(), true;
  if (!GetFileInformationByHandle(handle_of(file), &facts)) return failed();
  found->folder = (facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  found->regular = !found->folder;
  found->size = uint64_t{facts.nFileSizeHigh} << 32 | facts.nFileSizeLow;
  return true;
}

bool facts(const char* path, Facts* found) {
  const File file = opened(path, 0, kShared, OPEN_EXISTING, kFolders);
  if (file == kNoFile) return false;
  const bool done = facts(file, found);
  close(file);
  return done;
}

// Files that lie in a cloud are marked in a similar way, and are no links.
bool is_link(const char* path) {
  WIN32_FIND_DATAW found;
  const HANDLE search = FindFirstFileW(native(path).c_str(), &found);
  if (search == INVALID_HANDLE_VALUE) return failed();
  FindClose(search);
  return (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
         (found.dwReserved0 == IO_REPARSE_TAG_SYMLINK || found.dwReserved0 == IO_REPARSE_TAG_MOUNT_POINT);
}

bool real_path(const char* path, std::string* found) {
  const File file = opened(path, 0, kShared, OPEN_EXISTING, kFolders);
  if (file == kNoFile) return false;
  std::wstring whole(GetFinalPathNameByHandleW(handle_of(file), nullptr, 0, 0), L'\0');
  if (!whole.empty()) whole.resize(GetFinalPathNameByHandleW(handle_of(file), &whole[0], static_cast<DWORD>(whole.size()), 0));
  close(file);
  if (whole.empty()) return failed();
  if (starts(whole, kShare)) whole = L"\\\\" + whole.substr(kShare.size());
  else if (starts(whole, kMark)) whole = whole.substr(kMark.size());
  *found = utf8(whole);
  return true;
}

bool is_separator(char one) { return one == '\\' || one == '/'; }

bool make_folder(const char* path) { return CreateDirectoryW(native(path).c_str(), nullptr) || failed(); }
bool remove_file(const char* path) { return DeleteFileW(native(path).c_str()) || failed(); }

bool replace(const char* from, const char* to) {
  constexpr int kTries = 10;
  constexpr DWORD kPause = 20;  // milliseconds: scanners hold new files for a moment
  for (int left = kTries; left-- > 0; Sleep(kPause)) {
    if (MoveFileExW(native(from).c_str(), native(to).c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) return true;
    if (GetLastError() != ERROR_SHARING_VIOLATION && GetLastError() != ERROR_ACCESS_DENIED) break;
  }
  return failed();
}

void* map(File file, uint64_t size) {
  const HANDLE mapping = CreateFileMappingW(handle_of(file), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (!mapping) return failed(), nullptr;
  void* found = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, static_cast<SIZE_T>(size));
  if (!found) failed();
  CloseHandle(mapping);  // the view keeps it
  return found;
}

void unmap(void* data, size_t) { UnmapViewOfFile(data); }

void forget_cached(File, uint64_t, uint64_t) {}
File open_mapped(const uint8_t*, size_t, uint64_t*) { return kNoFile; }

void read_ahead(const char* path, uint64_t first, uint64_t bytes) {
  const File file = open_to_read(path);
  Facts found;
  const uint64_t size = file != kNoFile && facts(file, &found) ? found.size : 0;
  auto* data = size ? static_cast<uint8_t*>(map(file, size)) : nullptr;
  if (data && first < size) {
    WIN32_MEMORY_RANGE_ENTRY range{data + first, static_cast<SIZE_T>(std::min(bytes, size - first))};
    PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
  }
  if (data) unmap(data, size);
  if (file != kNoFile) close(file);
}

}  // namespace edgedec::os
