#include "engine/base/block.h"

#include "common/os/memory.h"
#include "core/base/format.h"

namespace edgedec::engine {

Status Block::allocate(size_t size, const char* what) {
  release();
  if (size == 0) return {};
  void* found = os::reserve_pages(size);
  if (!found)
    return {Code::kNoMemory, "the system does not give " + decimal(uint64_t{size}) + " bytes of memory for " + what,
            "close other programs, or use a smaller context"};
  data_ = static_cast<uint8_t*>(found);
  size_ = size;
  return {};
}

void Block::release() {
  if (data_) os::return_pages(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace edgedec::engine
