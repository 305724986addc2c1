// Files: read whole, mapped, and written so that a crash or a full disk leaves the old one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/files.h"
#include "core/base/status.h"

namespace edgedec::engine {

// The path of `name` in `folder`.
std::string path_in(std::string_view folder, std::string_view name);

// Bytes of a regular file, or -1: missing, or something else.
int64_t file_size(const std::string& path);

// Whether `path` is a symbolic link that leads out of `folder`.
bool leads_out(const std::string& folder, const std::string& path);

// Reads a file of at most `most` bytes. kNotFound: there is none. kBadFile: it cannot be read, or is larger.
Status read_file(const std::string& path, size_t most, std::string* content);

// Hashes a file. kBadFile: it cannot be read.
Status sha256_of_file(const std::string& path, std::string* hex);

// Makes a folder and those above it. kStorage.
Status make_folder(const std::string& path);

Status remove_file(const std::string& path);

// A file in memory, read only. Pages come in as they are touched.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile() { close(); }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    if (this != &other) {
      close();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Status open(const std::string& path);
  void close();
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// A file that takes the place of `path` at commit(); without it, nothing changes.
class FileWriter {
 public:
  FileWriter() = default;
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Makes the folders above `path` where they are missing.
  Status open(const std::string& path);
  Status write(const void* data, size_t size);
  Status commit();

 private:
  std::string path_, temporary_;
  os::File file_ = os::kNoFile;
};

Status write_file(const std::string& path, std::string_view content);

// A file that is read from its beginning on.
class FileReader {
 public:
  FileReader() = default;
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  Status open(const std::string& path);
  // Reads `size` bytes. kBadFile: there are fewer.
  Status read(void* data, size_t size);
  uint64_t size() const { return size_; }
  uint64_t left() const { return size_ - at_; }

 private:
  std::string path_;
  os::File file_ = os::kNoFile;
  uint64_t size_ = 0, at_ = 0;
};

}  // namespace edgedec::engine
