// C ABI: the rows that this CPU can run, the bandwidth of its memory, and pages of this process.
#include "common/capi.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/isa.h"
#include "common/os/clock.h"
#include "common/os/files.h"
#include "common/os/memory.h"
#include "common/os/process.h"
#include "common/threads.h"

EDGEDEC_EXPORT int edgedec_cpu_has(const char* row) { return edgedec::cpu_has(row); }

// Null when EDGEDEC_ISA names a row that cannot run here.
EDGEDEC_EXPORT const char* edgedec_selected_isa() { return edgedec::selected_isa(); }

namespace {

const char* nth(const char* const* rows, int i) {
  for (int n = 0; rows[n]; ++n)
    if (n == i) return rows[n];
  return nullptr;
}

}  // namespace

// The i-th quantised row of the library in order of preference, or null.
EDGEDEC_EXPORT const char* edgedec_isa(int i) { return nth(edgedec::isa_preference(), i); }

// The same of the rows of all processors, in the library or not.
EDGEDEC_EXPORT const char* edgedec_every_isa(int i) { return nth(edgedec::every_isa(), i); }

// Sets how many threads later calls of the quantised ops and of attention use; 1 at first.
EDGEDEC_EXPORT void edgedec_set_threads(int count) { edgedec::threads_per_call = count < 1 ? 1 : count; }

namespace {

constexpr size_t kLine = 64 / sizeof(uint64_t), kTurn = 16 * kLine, kAhead = 4 * kTurn;

// Reads neighbouring parts of n words in turns, several of them prefetched: which way is faster, CPUs decide, as they do
// for passes (quant_linear/tile_loop.h).
uint64_t sum_words(const uint64_t* p, size_t n, size_t streams) {
  uint64_t sum[kLine] = {};
  const size_t part = n / streams / kTurn * kTurn;
  for (size_t at = 0; at < part; at += kTurn)
    for (size_t s = 0; s < streams; ++s) {
      const uint64_t* turn = p + s * part + at;
      for (size_t i = 0; i < kTurn && streams > 1; i += kLine) __builtin_prefetch(turn + kAhead + i);
      for (size_t i = 0; i < kTurn; ++i) sum[i % kLine] += turn[i];
    }
  uint64_t all = 0;
  for (uint64_t one : sum) all += one;
  return all;
}

double seconds_to_read(const uint64_t* data, size_t words, int threads, size_t streams) {
  const size_t share = words / static_cast<size_t>(threads);
  std::atomic<uint64_t> sink{0};
  std::atomic<int> next{0};
  auto work = [&] {
    for (int t; (t = next.fetch_add(1)) < threads;) sink += sum_words(data + share * static_cast<size_t>(t), share, streams);
  };
  const double start = edgedec::os::monotonic_s();
  edgedec::on_threads(threads, work);
  return edgedec::os::monotonic_s() - start;
}

}  // namespace

// Seconds of the clock that time.perf_counter reads, for those who are handed a function.
EDGEDEC_EXPORT double edgedec_monotonic_s() { return edgedec::os::monotonic_s(); }

// Streaming read bandwidth in GB/s over `bytes` of memory (choose more than the caches hold), in large pages where the
// system has them: the best of five passes each with one stream a thread and with four. Negative when the memory cannot be
// allocated.
EDGEDEC_EXPORT double edgedec_read_bandwidth(size_t bytes, int threads) {
  if (threads < 1 || bytes < 4096) return -1.0;
  constexpr size_t kLargePage = 2 << 20;
  void* data = edgedec::os::take_aligned(kLargePage, bytes);
  if (!data) return -1.0;
  edgedec::os::prefer_large_pages(data, bytes);
  std::memset(data, 1, bytes);
  double best = 1e30;
  for (int i = 0; i < 10; ++i)
    best = std::min(best, seconds_to_read(static_cast<uint64_t*>(data), bytes / 8, threads, i % 2 ? 4 : 1));
  edgedec::os::free_aligned(data);
  return static_cast<double>(bytes) / best / 1e9;
}

EDGEDEC_EXPORT void edgedec_read_ahead(const char* path, uint64_t first, uint64_t bytes) {
  edgedec::os::read_ahead(path, first, bytes);
}

EDGEDEC_EXPORT void edgedec_release_code() { edgedec::os::release_code(); }

EDGEDEC_EXPORT void edgedec_map_ahead(const char* path, uint64_t first) { edgedec::os::map_ahead(path, first); }
