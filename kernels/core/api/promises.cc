// C ABI of what drafters promise before they run: core/draft/trimmed_head.h and exit_drafter.h say it.
#include "common/capi.h"
#include "core/draft/exit_drafter.h"

EDGEDEC_EXPORT double edgedec_promise_chain_gain(double step, double outside) {
  return edgedec::engine::chain_gain(step, outside);
}
EDGEDEC_EXPORT double edgedec_promise_break_even(double step, double trimmed) {
  return edgedec::engine::break_even(step, trimmed);
}
EDGEDEC_EXPORT double edgedec_promise_speed(int layers, int last, int whole, double step) {
  return edgedec::engine::promised_speed(layers, last, whole, step);
}
EDGEDEC_EXPORT double edgedec_promise_least() { return edgedec::engine::least_promise(); }
