#include "common/scratch.h"

#include <new>

#include "common/os/memory.h"
#include "common/os/threads.h"

namespace edgedec {
namespace {

// Memory that grows to exactly the requested size; the old block is freed before the new one is allocated.
class Buffer {
 public:
  ~Buffer() { os::free_aligned(data_); }

  void* at_least(size_t bytes) {
    if (bytes <= size_) return data_;
    os::free_aligned(data_);
    data_ = os::take_aligned(kAlignment, bytes);
    size_ = data_ ? bytes : 0;
    return data_;
  }

 private:
  static constexpr size_t kAlignment = 64;

  void* data_ = nullptr;
  size_t size_ = 0;
};

struct Buffers {
  Buffer all[static_cast<int>(Scratch::kCount)];
};

// The library stays loaded, as the slot keeps a pointer to its code.
os::ThreadSlot slot_of_thread;
bool have_slot = false;
os::OnceFlag once = os::kNotYet;

void make_slot() {
  have_slot = slot_of_thread.make([](void* buffers) { delete static_cast<Buffers*>(buffers); });
}

}  // namespace

void* scratch_bytes(Scratch slot, size_t bytes) {
  os::call_once(&once, make_slot);
  if (!have_slot) return nullptr;
  auto* buffers = static_cast<Buffers*>(slot_of_thread.get());
  if (!buffers) {
    buffers = new (std::nothrow) Buffers;
    if (!buffers) return nullptr;
    if (!slot_of_thread.set(buffers)) {
      delete buffers;
      return nullptr;
    }
  }
  return buffers->all[static_cast<int>(slot)].at_least(bytes);
}

}  // namespace edgedec
