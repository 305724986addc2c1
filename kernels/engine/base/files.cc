#include "engine/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/format.h"
#include "engine/base/sha256.h"

namespace edgedec::engine {
namespace {

constexpr size_t kChunk = 1 << 18;

const char* reason() {
  switch (errno) {
    case ENOENT: return "there is no such file";
    case EACCES: case EPERM: return "no permission";
    case EISDIR: return "it is a directory";
    case ENOTDIR: return "a file is in the way";
    case EMFILE: case ENFILE: return "too many files are open";
    default: return "the system refuses it";
  }
}

Status unreadable(const std::string& path) {
  return {Code::kBadFile, path + " cannot be read: " + reason()};
}

Status unwritable(const std::string& path) {
  if (errno == ENOSPC || errno == EDQUOT)
    return {Code::kStorage, "no space left on the disk while writing " + path, "free some space and try again"};
  if (errno == EACCES || errno == EPERM || errno == EROFS)
    return {Code::kStorage, "no permission to write " + path, "choose another folder"};
  return {Code::kStorage, "cannot write " + path + ": " + reason(), "choose another folder"};
}

int opened(const std::string& path, int flags) {
  int file;
  do file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  while (file < 0 && errno == EINTR);
  return file;
}

// Reads up to `size` bytes; returns how many, or -1.
ssize_t read_some(int file, void* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file, static_cast<char*>(data) + done, std::min(size - done, size_t{1} << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

// Opens a regular file to read. O_NONBLOCK: a pipe in its place must not hang the program.
Status open_regular(const std::string& path, int* file, uint64_t* size) {
  *file = opened(path, O_RDONLY | O_NONBLOCK);
  if (*file < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {Code::kNotFound, "there is no file " + path};
    return unreadable(path);
  }
  struct stat facts{};
  if (fstat(*file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(*file);
    *file = -1;
    return {Code::kBadFile, path + " is not a file"};
  }
  *size = static_cast<uint64_t>(facts.st_size);
  return {};
}

bool real_path(const std::string& path, std::string* found) {
  char* text = realpath(path.c_str(), nullptr);
  if (!text) return false;
  *found = text;
  free(text);
  return true;
}

}  // namespace

std::string path_in(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

int64_t file_size(const std::string& path) {
  struct stat facts{};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) ? static_cast<int64_t>(facts.st_size) : -1;
}

bool leads_out(const std::string& folder, const std::string& path) {
  struct stat facts{};
  if (lstat(path.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return false;
  std::string inside, target;
  if (!real_path(folder, &inside)) return true;
  if (!real_path(path, &target)) return false;  // it leads nowhere: opening it says so
  if (inside.back() != '/') inside += '/';
  return target.compare(0, inside.size(), inside) != 0;
}

Status read_file(const std::string& path, size_t most, std::string* content) {
  content->clear();
  int file;
  uint64_t size;
  EDGEDEC_TRY(open_regular(path, &file, &size));
  std::string chunk(std::min<uint64_t>(std::max<uint64_t>(size + 1, 4096), std::min(most + 1, kChunk)), '\0');
  Status result;
  while (result.ok()) {
    const ssize_t got = read_some(file, &chunk[0], chunk.size());
    if (got < 0) result = unreadable(path);
    if (got <= 0) break;
    content->append(chunk, 0, static_cast<size_t>(got));
    if (content->size() > most) result = {Code::kBadFile, path + " is larger than " + decimal(uint64_t{most}) + " bytes"};
  }
  ::close(file);
  if (!result.ok()) content->clear();
  return result;
}

Status sha256_of_file(const std::string& path, std::string* hex) {
  int file;
  uint64_t size;
  EDGEDEC_TRY(open_regular(path, &file, &size));
  std::string chunk(kChunk, '\0');
  Sha256 hash;
  ssize_t got;
  while ((got = read_some(file, &chunk[0], chunk.size())) > 0) hash.add(chunk.data(), static_cast<size_t>(got));
  Status result = got < 0 ? unreadable(path) : Status();
  ::close(file);
  *hex = hash.hex();
  return result;
}

Status make_folder(const std::string& path) {
  for (size_t end = 1; end != std::string::npos && end <= path.size();) {
    end = path.find('/', end);
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) {
      struct stat facts{};  // a folder that may not be written may still be there
      if (stat(part.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return unwritable(path);
    }
    if (end != std::string::npos) ++end;
  }
  return {};
}

Status remove_file(const std::string& path) {
  return unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : unwritable(path);
}

Status MappedFile::open(const std::string& path) {
  close();
  int file;
  uint64_t size;
  EDGEDEC_TRY(open_regular(path, &file, &size));
  Status result;
  if (size > 0) {
    void* found = size > SIZE_MAX / 2 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (found == MAP_FAILED) {
      result = {Code::kNoMemory, path + " cannot be mapped into memory"};
    } else {
      data_ = static_cast<const uint8_t*>(found);
      size_ = size;
    }
  }
  ::close(file);
  return result;
}

void MappedFile::close() {
  if (data_) munmap(const_cast<uint8_t*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

FileWriter::~FileWriter() {
  if (file_ < 0) return;
  ::close(file_);
  unlink(temporary_.c_str());
}

Status FileWriter::open(const std::string& path) {
  if (file_ >= 0) return {Code::kUsage, path + " is being written already"};
  path_ = path;
  if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0)
    EDGEDEC_TRY(make_folder(path.substr(0, slash)));
  for (unsigned turn = 0; turn < 100; ++turn) {  // the name of a file that a crash left is not used again
    temporary_ = path + ".partial-" + decimal(static_cast<uint64_t>(getpid())) + "x" + decimal(uint64_t{turn});
    file_ = opened(temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (file_ >= 0) return {};
    if (errno != EEXIST) break;
  }
  return unwritable(path);
}

Status FileWriter::write(const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size) {
    const ssize_t done = ::write(file_, bytes, std::min(size, size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return unwritable(path_);
    bytes += done;
    size -= static_cast<size_t>(done);
  }
  return {};
}

Status FileWriter::commit() {
  const bool kept = fsync(file_) == 0;
  Status result = kept ? Status() : unwritable(path_);
  if (::close(file_) != 0 && result.ok()) result = unwritable(path_);
  file_ = -1;
  if (result.ok() && rename(temporary_.c_str(), path_.c_str()) != 0) result = unwritable(path_);
  if (!result.ok()) unlink(temporary_.c_str());
  return result;
}

Status write_file(const std::string& path, std::string_view content) {
  FileWriter file;
  EDGEDEC_TRY(file.open(path));
  EDGEDEC_TRY(file.write(content.data(), content.size()));
  return file.commit();
}

FileReader::~FileReader() {
  if (file_ >= 0) ::close(file_);
}

Status FileReader::open(const std::string& path) {
  if (file_ >= 0) ::close(file_);
  path_ = path;
  at_ = 0;
  return open_regular(path, &file_, &size_);
}

Status FileReader::read(void* data, size_t size) {
  const ssize_t got = read_some(file_, data, size);
  if (got < 0) return unreadable(path_);
  at_ += static_cast<uint64_t>(got);
  if (static_cast<size_t>(got) != size) return {Code::kBadFile, path_ + " ends too early"};
  return {};
}

}  // namespace edgedec::engine
