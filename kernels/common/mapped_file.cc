#include "common/mapped_file.h"

namespace edgedec {

MappedFile::MappedFile(const uint8_t* data, size_t size) : data_(data), file_(os::open_mapped(data, size, &start_)) {}

MappedFile::~MappedFile() {
  if (file_ != os::kNoFile) os::close(file_);
}

const uint8_t* MappedFile::read(size_t at, size_t n, uint8_t* room) const {
  for (size_t done = 0; file_ != os::kNoFile;) {
    const int64_t got = os::read_at(file_, room + done, n - done, start_ + at + done);
    if (got <= 0) break;  // read from memory instead; a mapping whose file was cut ends the process
    if ((done += static_cast<size_t>(got)) == n) return room;
  }
  return data_ + at;
}

}  // namespace edgedec
