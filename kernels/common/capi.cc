// C ABI: the rows that this CPU can run, and the bandwidth of its memory.
#include "common/capi.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "common/isa.h"
#include "common/threads.h"

EDGEDEC_EXPORT int edgedec_cpu_has(const char* row) { return edgedec::cpu_has(row); }

// Null when EDGEDEC_ISA names a row that cannot run here.
EDGEDEC_EXPORT const char* edgedec_selected_isa() { return edgedec::selected_isa(); }

// The i-th quantised row in order of preference, or null.
EDGEDEC_EXPORT const char* edgedec_isa(int i) {
  const char* const* rows = edgedec::isa_preference();
  for (int n = 0; rows[n]; ++n)
    if (n == i) return rows[n];
  return nullptr;
}

// Sets how many threads later calls of the quantised ops and of attention use; 1 at first.
EDGEDEC_EXPORT void edgedec_set_threads(int count) { edgedec::threads_per_call = count < 1 ? 1 : count; }

namespace {

uint64_t sum_words(const uint64_t* p, size_t n) {
  uint64_t sum[8] = {};
  for (size_t i = 0; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; ++j) sum[j] += p[i + j];
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

double seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_to_read(const uint64_t* data, size_t words, int threads) {
  const size_t share = words / static_cast<size_t>(threads);
  std::atomic<uint64_t> sink{0};
  std::atomic<int> next{0};
  auto work = [&] {
    for (int t; (t = next.fetch_add(1)) < threads;) sink += sum_words(data + share * static_cast<size_t>(t), share);
  };
  const double start = seconds();
  edgedec::on_threads(threads, work);
  return seconds() - start;
}

}  // namespace

// Streaming read bandwidth in GB/s over `bytes` of memory (choose more than the caches hold): the best of five
// passes. Negative when the memory cannot be allocated.
EDGEDEC_EXPORT double edgedec_read_bandwidth(size_t bytes, int threads) {
  if (threads < 1 || bytes < 4096) return -1.0;
  auto* data = static_cast<uint64_t*>(std::malloc(bytes));
  if (!data) return -1.0;
  std::memset(data, 1, bytes);
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const double took = seconds_to_read(data, bytes / 8, threads);
    if (took < best) best = took;
  }
  std::free(data);
  return static_cast<double>(bytes) / best / 1e9;
}
