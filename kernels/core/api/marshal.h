// Arguments of the C API, as the core takes them.
#pragma once

#include "core/api/core_api.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"

namespace edgedec::engine::api {

inline size_t size(int64_t number) { return number > 0 ? static_cast<size_t>(number) : 0; }

template <class T>
Span<const T> span(const T* data, int64_t count) {
  return {data, size(count)};
}

// Notes a failure for edgedec_core_error(), and returns its code as a result of the API; 0 for none.
int failed(const Status& status);

// The settings, and whether they are in their ranges.
Status read(const edgedec_core_params& given, DrawParams* params);

HeadView view(const edgedec_core_head& head);

// Copies rows without logits.
inline void copy(const HeadView& from, HeadRows* to) {
  const size_t cells = from.rows * from.k;
  to->rows = from.rows;
  to->k = from.k;
  to->values.assign(from.values, from.values + cells);
  to->ids.assign(from.ids, from.ids + cells);
  to->logsumexp.assign(from.logsumexp, from.logsumexp + from.rows);
  to->entropy.assign(from.entropy, from.entropy + from.rows);
  to->temperature = from.temperature;
}

// The outcome of a call of the host, which knows why it failed.
inline Status host_status(int failed) { return failed ? Status(Code::kBackend, "the host's model failed") : Status(); }

}  // namespace edgedec::engine::api
