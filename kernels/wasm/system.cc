// Functions of a system for the engine, in edgedec.wasm: time comes from JavaScript, memory from the heap.
#include <atomic>
#include <cstdlib>

#include "common/os/clock.h"
#include "common/os/files.h"
#include "common/os/memory.h"
#include "common/scratch.h"
#include "engine/base/block.h"
#include "core/base/format.h"

extern "C" __attribute__((import_module("env"), import_name("edgedec_now"))) double edgedec_now();

// The system calls of Zig's C library, which has some for what the engine never reaches: printing, the environment. They are
// imports of a module that does not define them, and a page would have to offer them.
#define WASI(name) __imported_wasi_snapshot_preview1_##name
extern "C" {
constexpr int32_t kDone = 0, kNoFile = 8;
int32_t WASI(clock_time_get)(int32_t, int64_t, int32_t now) {
  *reinterpret_cast<int64_t*>(now) = static_cast<int64_t>(edgedec_now() * 1e9);
  return kDone;
}
int32_t WASI(environ_get)(int32_t, int32_t) { return kDone; }
int32_t WASI(environ_sizes_get)(int32_t count, int32_t size) {
  *reinterpret_cast<int32_t*>(count) = *reinterpret_cast<int32_t*>(size) = 0;
  return kDone;
}
int32_t WASI(fd_close)(int32_t) { return kNoFile; }
int32_t WASI(fd_seek)(int32_t, int64_t, int32_t, int32_t) { return kNoFile; }
int32_t WASI(fd_write)(int32_t, int32_t, int32_t, int32_t) { return kNoFile; }
int32_t WASI(sched_yield)() { return kDone; }
int32_t close_file(int32_t) __asm__("fd_close|wasi_snapshot_preview1");  // as the part that is written in Zig names it
int32_t close_file(int32_t) { return kNoFile; }
[[noreturn]] void WASI(proc_exit)(int32_t) { __builtin_trap(); }
}

namespace edgedec {

// A thread's buffers live as long as the module. The heap is for one thread at a time: helpers use it here alone, and the thread
// that leads them nowhere else while they compute.
void* scratch_bytes(Scratch slot, size_t bytes) {
  constexpr size_t kAlignment = 64;
  static thread_local struct {
    void* data = nullptr;
    size_t size = 0;
  } buffers[static_cast<int>(Scratch::kCount)];
  auto& buffer = buffers[static_cast<int>(slot)];
  if (bytes <= buffer.size) return buffer.data;
  static std::atomic_flag taken = ATOMIC_FLAG_INIT;
  while (taken.test_and_set(std::memory_order_acquire)) {
  }
  std::free(buffer.data);
  buffer.size = 0;
  buffer.data = bytes > SIZE_MAX - kAlignment
                    ? nullptr
                    : std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (buffer.data) buffer.size = bytes;
  taken.clear(std::memory_order_release);
  return buffer.data;
}

}  // namespace edgedec

namespace edgedec::os {

double monotonic_s() { return edgedec_now(); }
double wall_s() { return edgedec_now(); }
std::optional<double> load_average() { return {}; }

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

// Takes them from the heap, not zeroed: nothing that asks for pages here reads what it has not written.
void* take_pages(size_t bytes) { return std::malloc(bytes); }
void return_pages(void* pages, size_t) { std::free(pages); }

File open_mapped(const uint8_t*, size_t, uint64_t*) { return kNoFile; }
int64_t read_at(File, void*, size_t, uint64_t) { return -1; }
bool close(File) { return false; }
bool is_separator(char one) { return one == '/'; }

}  // namespace edgedec::os

namespace edgedec::engine {

Status Block::allocate(size_t size, const char* what) {
  release();
  if (size == 0) return {};
  data_ = static_cast<uint8_t*>(std::calloc(size, 1));
  if (!data_)
    return {Code::kNoMemory, "WebAssembly has no " + decimal(uint64_t{size}) + " bytes of memory left for " + what,
            "use a smaller context or a smaller model"};
  size_ = size;
  return {};
}

void Block::release() {
  std::free(data_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace edgedec::engine
