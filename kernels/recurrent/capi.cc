// C ABI for hosts of devices. Returns the steps written to to[length - applied + tokens][kStepWords], -1 where a number is
// wrong, -2 without memory.
#include "common/capi.h"
#include "recurrent/list_steps.h"

EDGEDEC_EXPORT int64_t edgedec_recurrent_steps(const int64_t* parents, size_t tokens,
                                               size_t length, size_t applied, size_t taps,
                                               uint32_t* to) {
  using namespace edgedec::recurrent;
  const Walked one = {parents, tokens, length, applied};
  if (listing_problem(one, taps)) return -1;
  return list_steps(one, taps, to) ? static_cast<int64_t>(length - applied + tokens) : -2;
}
