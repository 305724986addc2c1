#include "engine/base/files.h"

#include <algorithm>
#include <cerrno>

#include "common/os/process.h"
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

bool no_space() {
#ifdef EDQUOT
  if (errno == EDQUOT) return true;
#endif
  return errno == ENOSPC;
}

Status unwritable(const std::string& path) {
  if (no_space())
    return {Code::kStorage, "no space left on the disk while writing " + path, "free some space and try again"};
  if (errno == EACCES || errno == EPERM || errno == EROFS)
    return {Code::kStorage, "no permission to write " + path, "choose another folder"};
  return {Code::kStorage, "cannot write " + path + ": " + reason(), "choose another folder"};
}

// Reads up to `size` bytes; returns how many, or -1.
int64_t read_some(os::File file, void* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const int64_t got = os::read(file, static_cast<char*>(data) + done, size - done);
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

Status open_regular(const std::string& path, os::File* file, uint64_t* size) {
  *file = os::open_to_read(path.c_str());
  if (*file == os::kNoFile) {
    if (errno == ENOENT || errno == ENOTDIR) return {Code::kNotFound, "there is no file " + path};
    return unreadable(path);
  }
  os::Facts facts;
  if (!os::facts(*file, &facts) || !facts.regular) {
    os::close(*file);
    *file = os::kNoFile;
    return {Code::kBadFile, path + " is not a file"};
  }
  *size = facts.size;
  return {};
}

// Bytes of a path's folder, without separators at its end; 0 for none, or the root.
size_t length_above(const std::string& path) {
  size_t end = path.size();
  while (end > 0 && os::is_separator(path[end - 1])) --end;
  while (end > 0 && !os::is_separator(path[end - 1])) --end;
  while (end > 0 && os::is_separator(path[end - 1])) --end;
  return end;
}

}  // namespace

std::string path_in(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && !os::is_separator(path.back())) path += '/';
  return path.append(name);
}

int64_t file_size(const std::string& path) {
  os::Facts facts;
  return os::facts(path.c_str(), &facts) && facts.regular ? static_cast<int64_t>(facts.size) : -1;
}

bool leads_out(const std::string& folder, const std::string& path) {
  if (!os::is_link(path.c_str())) return false;
  std::string inside, target;
  if (!os::real_path(folder.c_str(), &inside)) return true;
  if (!os::real_path(path.c_str(), &target)) return false;  // it leads nowhere: opening it says so
  if (os::is_separator(inside.back())) inside.pop_back();
  return target.compare(0, inside.size(), inside) != 0 || target.size() == inside.size() || !os::is_separator(target[inside.size()]);
}

Status read_file(const std::string& path, size_t most, std::string* content) {
  content->clear();
  os::File file;
  uint64_t size;
  EDGEDEC_TRY(open_regular(path, &file, &size));
  std::string chunk(std::min<uint64_t>(std::max<uint64_t>(size + 1, 4096), std::min(most + 1, kChunk)), '\0');
  Status result;
  while (result.ok()) {
    const int64_t got = read_some(file, &chunk[0], chunk.size());
    if (got < 0) result = unreadable(path);
    if (got <= 0) break;
    content->append(chunk, 0, static_cast<size_t>(got));
    if (content->size() > most) result = {Code::kBadFile, path + " is larger than " + decimal(uint64_t{most}) + " bytes"};
  }
  os::close(file);
  if (!result.ok()) content->clear();
  return result;
}

Status sha256_of_file(const std::string& path, std::string* hex) {
  os::File file;
  uint64_t size;
  EDGEDEC_TRY(open_regular(path, &file, &size));
  std::string chunk(kChunk, '\0');
  Sha256 hash;
  int64_t got;
  while ((got = read_some(file, &chunk[0], chunk.size())) > 0) hash.add(chunk.data(), static_cast<size_t>(got));
  Status result = got < 0 ? unreadable(path) : Status();
  os::close(file);
  *hex = hash.hex();
  return result;
}

Status make_folder(const std::string& path) {
  if (os::make_folder(path.c_str()) || errno == EEXIST) return {};
  os::Facts facts;  // a folder that may not be written may still be there
  const int error = errno;
  if (os::facts(path.c_str(), &facts) && facts.folder) return {};
  errno = error;
  const size_t above = length_above(path);
  if (error != ENOENT || above == 0) return unwritable(path);
  EDGEDEC_TRY(make_folder(path.substr(0, above)));
  return os::make_folder(path.c_str()) || errno == EEXIST ? Status() : unwritable(path);
}

Status remove_file(const std::string& path) {
  return os::remove_file(path.c_str()) || errno == ENOENT ? Status() : unwritable(path);
}

Status MappedFile::open(const std::string& path) {
  close();
  os::File file;
  uint64_t size;
  EDGEDEC_TRY(open_regular(path, &file, &size));
  Status result;
  if (size > 0) {
    void* found = os::map(file, size);
    if (!found) {
      result = {Code::kNoMemory, path + " cannot be mapped into memory"};
    } else {
      data_ = static_cast<const uint8_t*>(found);
      size_ = size;
    }
  }
  os::close(file);
  return result;
}

void MappedFile::close() {
  if (data_) os::unmap(const_cast<uint8_t*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

FileWriter::~FileWriter() {
  if (file_ == os::kNoFile) return;
  os::close(file_);
  os::remove_file(temporary_.c_str());
}

Status FileWriter::open(const std::string& path) {
  if (file_ != os::kNoFile) return {Code::kUsage, path + " is being written already"};
  path_ = path;
  if (const size_t above = length_above(path)) EDGEDEC_TRY(make_folder(path.substr(0, above)));
  for (unsigned turn = 0; turn < 100; ++turn) {  // the name of a file that a crash left is not used again
    temporary_ = path + ".partial-" + decimal(os::process_number()) + "x" + decimal(uint64_t{turn});
    file_ = os::create_new(temporary_.c_str());
    if (file_ != os::kNoFile) return {};
    if (errno != EEXIST) break;
  }
  return unwritable(path);
}

Status FileWriter::write(const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size) {
    const int64_t done = os::write(file_, bytes, size);
    if (done < 0) return unwritable(path_);
    bytes += done;
    size -= static_cast<size_t>(done);
  }
  return {};
}

Status FileWriter::commit() {
  Status result = os::flush(file_) ? Status() : unwritable(path_);
  if (!os::close(file_) && result.ok()) result = unwritable(path_);
  file_ = os::kNoFile;
  if (result.ok() && !os::replace(temporary_.c_str(), path_.c_str())) result = unwritable(path_);
  if (!result.ok()) os::remove_file(temporary_.c_str());
  return result;
}

Status write_file(const std::string& path, std::string_view content) {
  FileWriter file;
  EDGEDEC_TRY(file.open(path));
  EDGEDEC_TRY(file.write(content.data(), content.size()));
  return file.commit();
}

FileReader::~FileReader() {
  if (file_ != os::kNoFile) os::close(file_);
}

Status FileReader::open(const std::string& path) {
  if (file_ != os::kNoFile) os::close(file_);
  path_ = path;
  at_ = 0;
  return open_regular(path, &file_, &size_);
}

Status FileReader::read(void* data, size_t size) {
  const int64_t got = read_some(file_, data, size);
  if (got < 0) return unreadable(path_);
  at_ += static_cast<uint64_t>(got);
  if (static_cast<size_t>(got) != size) return {Code::kBadFile, path_ + " ends too early"};
  return {};
}

}  // namespace edgedec::engine
