// What the C API is handed, as the core takes it.
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

}  // namespace edgedec::engine::api
