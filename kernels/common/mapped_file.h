// Pieces of a mapped file, read so that nothing of it stays mapped.
//
// Whatever touches mapped memory gets all that the system keeps together around it, up to megabytes for one row of a
// table, and all of it counts as the process's for as long as it runs. Reading the file copies the row and no more.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec {

class MappedFile {
 public:
  // The file that [data, data + size) is mapped from. Where there is none, or none that can be read (other systems than
  // Linux), pieces are those in memory.
  MappedFile(const uint8_t* data, size_t size);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  bool holds(const uint8_t* data) const { return file_ >= 0 && data == data_; }

  // n bytes from offset `at` on: in `room`, or where they lie.
  const uint8_t* read(size_t at, size_t n, uint8_t* room) const;

 private:
  const uint8_t* data_;
  int file_ = -1;
  uint64_t start_ = 0;  // of data in the file
};

}  // namespace edgedec
