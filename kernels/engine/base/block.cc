#include "engine/base/block.h"

#include <sys/mman.h>

#include "core/base/format.h"

namespace edgedec::engine {

Status Block::allocate(size_t size, const char* what) {
  release();
  if (size == 0) return {};
  void* found = size > SIZE_MAX / 2
                    ? MAP_FAILED
                    : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    return {Code::kNoMemory, "the system does not give " + decimal(size) + " bytes of memory for " + what,
            "close other programs, or use a smaller context"};
  data_ = static_cast<uint8_t*>(found);
  size_ = size;
  return {};
}

void Block::release() {
  if (data_) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace edgedec::engine
