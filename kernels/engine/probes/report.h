// Texts that probes return.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include "common/capi.h"
#include "core/base/json.h"
#include "core/base/status.h"

namespace edgedec::engine {

// A copy that edgedec_free frees.
inline char* copied(const std::string& text, size_t* size) {
  auto* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) return nullptr;
  std::memcpy(out, text.c_str(), text.size() + 1);
  *size = text.size();
  return out;
}

// {"code": ..., "message": ..., "hint": ...}
inline char* reported(const Status& status, size_t* size) {
  JsonWriter out;
  out.begin_object().key("code").whole(static_cast<int>(status.code()));
  out.key("message").text(status.message()).key("hint").text(status.hint()).end_object();
  return copied(out.str(), size);
}

}  // namespace edgedec::engine
