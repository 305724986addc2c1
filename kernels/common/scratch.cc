#include "common/scratch.h"

#include <pthread.h>

#include <cstdlib>
#include <new>

namespace edgedec {
namespace {

// Memory that grows to exactly the requested size; the old block is freed before the new one is allocated.
class Buffer {
 public:
  ~Buffer() { std::free(data_); }

  void* at_least(size_t bytes) {
    if (bytes <= size_) return data_;
    std::free(data_);
    size_ = posix_memalign(&data_, kAlignment, bytes) == 0 ? bytes : 0;
    if (!size_) data_ = nullptr;
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

// A key and not thread_local: Android has thread-local variables of a library only from its tenth version on. The
// library is linked so that it stays loaded, as the key keeps a pointer to its code.
pthread_key_t key;
bool have_key = false;
pthread_once_t once = PTHREAD_ONCE_INIT;

void make_key() {
  have_key = pthread_key_create(&key, [](void* buffers) { delete static_cast<Buffers*>(buffers); }) == 0;
}

}  // namespace

void* scratch_bytes(Scratch slot, size_t bytes) {
  pthread_once(&once, make_key);
  if (!have_key) return nullptr;
  auto* buffers = static_cast<Buffers*>(pthread_getspecific(key));
  if (!buffers) {
    buffers = new (std::nothrow) Buffers;
    if (!buffers) return nullptr;
    if (pthread_setspecific(key, buffers) != 0) {
      delete buffers;
      return nullptr;
    }
  }
  return buffers->all[static_cast<int>(slot)].at_least(bytes);
}

}  // namespace edgedec
