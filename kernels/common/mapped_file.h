// Reads pieces of a mapped file without making its pages resident.
//
// Touching mapped memory brings in the surrounding pages as well, up to megabytes for one row of a table. They count as
// memory of the process until it ends. Reading the file copies only the row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/os/files.h"

namespace edgedec {

class MappedFile {
 public:
  // The file that [data, data + size) is mapped from. Without a readable file, and where the system does not say
  // which one it is, read() returns the bytes in memory.
  MappedFile(const uint8_t* data, size_t size);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  bool holds(const uint8_t* data) const { return file_ != os::kNoFile && data == data_; }

  // n bytes from offset `at`: copied into `room`, or in place in the mapping.
  const uint8_t* read(size_t at, size_t n, uint8_t* room) const;

 private:
  const uint8_t* data_;
  uint64_t start_ = 0;  // offset of `data` in the file
  os::File file_;
};

}  // namespace edgedec
