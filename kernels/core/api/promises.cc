// C ABI of what drafters promise before they run: core/draft/trimmed_head.h and exit_drafter.h say it.
#include <algorithm>

#include "common/capi.h"
#include "core/draft/exit_drafter.h"
#include "core/draft/first_ids.h"

EDGEDEC_EXPORT double edgedec_promise_chain_gain(double step, double outside) {
  return edgedec::engine::chain_gain(step, outside);
}
EDGEDEC_EXPORT double edgedec_promise_break_even(double step, double trimmed) {
  return edgedec::engine::break_even(step, trimmed);
}
EDGEDEC_EXPORT double edgedec_promise_speed(int layers, int last, int whole, double step) {
  return edgedec::engine::promised_speed(layers, last, whole, step);
}
// The first ids of a vocabulary that the head of a layer is trimmed to, or 0; `own`, `head`: cost of a step of the layer and of
// the whole head, in passes of the target.
EDGEDEC_EXPORT double edgedec_promise_first_ids(double own, double head, double vocabulary) {
  return static_cast<double>(edgedec::engine::first_ids({own, head}, static_cast<int64_t>(vocabulary)));
}
EDGEDEC_EXPORT double edgedec_promise_least_saved() { return edgedec::engine::least_saved(); }

// layer_and_head[0]: bytes that a pass over one token reads of one layer, [1]: of the head.
EDGEDEC_EXPORT void edgedec_promise_read_bytes(int64_t layers, double layer, double head, double weights, double kv_cache,
                                               double* layer_and_head) {
  const auto found = edgedec::engine::ReadBytes::of({layers, layer, head, weights, kv_cache});
  layer_and_head[0] = found.layer;
  layer_and_head[1] = found.head;
}
// The exits that can pay, best first; there is room for all in `chosen`. Returns how many.
EDGEDEC_EXPORT int edgedec_promise_exits(const int32_t* exits, int64_t count, double layer, double head, double kept,
                                         int32_t* chosen) {
  const auto found = edgedec::engine::promising_exits({exits, static_cast<size_t>(count)}, {layer, head}, kept);
  std::copy(found.begin(), found.end(), chosen);
  return static_cast<int>(found.size());
}
