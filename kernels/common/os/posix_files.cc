// Files of Linux, Android and macOS.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/files.h"

namespace edgedec::os {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;

int opened(const char* path, int flags) {
  int file;
  do file = ::open(path, flags | O_CLOEXEC, 0600);
  while (file < 0 && errno == EINTR);
  return file;
}

Facts facts_of(const struct stat& found) {
  return {static_cast<uint64_t>(found.st_size), S_ISREG(found.st_mode), S_ISDIR(found.st_mode)};
}

// Repeats what a signal interrupted.
template <class Call>
int64_t uninterrupted(const Call& call) {
  ssize_t done;
  do done = call();
  while (done < 0 && errno == EINTR);
  return done;
}

}  // namespace

File open_to_read(const char* path) { return opened(path, O_RDONLY | O_NONBLOCK); }
File create_new(const char* path) { return opened(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW); }
bool close(File file) { return ::close(static_cast<int>(file)) == 0; }

int64_t read(File file, void* data, size_t size) {
  return uninterrupted([&] { return ::read(static_cast<int>(file), data, std::min(size, kMostAtOnce)); });
}

int64_t read_at(File file, void* data, size_t size, uint64_t at) {
  return uninterrupted([&] { return ::pread(static_cast<int>(file), data, std::min(size, kMostAtOnce), static_cast<off_t>(at)); });
}

int64_t write(File file, const void* data, size_t size) {
  return uninterrupted([&] { return ::write(static_cast<int>(file), data, std::min(size, kMostAtOnce)); });
}

bool flush(File file) { return fsync(static_cast<int>(file)) == 0; }

bool facts(File file, Facts* found) {
  struct stat one{};
  const bool done = fstat(static_cast<int>(file), &one) == 0;
  if (done) *found = facts_of(one);
  return done;
}

bool facts(const char* path, Facts* found) {
  struct stat one{};
  const bool done = stat(path, &one) == 0;
  if (done) *found = facts_of(one);
  return done;
}

bool is_link(const char* path) {
  struct stat one{};
  return lstat(path, &one) == 0 && S_ISLNK(one.st_mode);
}

bool real_path(const char* path, std::string* found) {
  char* text = realpath(path, nullptr);
  if (!text) return false;
  *found = text;
  free(text);
  return true;
}

bool is_separator(char one) { return one == '/'; }

bool make_folder(const char* path) { return mkdir(path, 0755) == 0; }
bool remove_file(const char* path) { return unlink(path) == 0; }
bool replace(const char* from, const char* to) { return rename(from, to) == 0; }

void* map(File file, uint64_t size) {
  void* found = size > SIZE_MAX / 2 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, static_cast<int>(file), 0);
  return found == MAP_FAILED ? nullptr : found;
}

void unmap(void* data, size_t size) { munmap(data, size); }

}  // namespace edgedec::os
