// The parts of the C API that need no engine: version, defaults, texts.
#include <cstdlib>
#include <cstring>

#include "engine/base/version.h"
#include "engine/edgedec.h"

namespace {

template <class T>
void clear(T* value) {
  std::memset(value, 0, sizeof *value);
  value->size = sizeof *value;
}

}  // namespace

extern "C" {

const char* edgedec_version(void) { return edgedec::engine::kVersionText; }

void edgedec_free(char* text) { std::free(text); }

void edgedec_options_init(edgedec_options* options) { clear(options); }

void edgedec_sampling_init(edgedec_sampling* sampling) {
  clear(sampling);
  sampling->top_p = sampling->typical = sampling->top_h = sampling->repetition_penalty = 1.0;
  sampling->mirostat_eta = 0.1;
}

void edgedec_request_init(edgedec_request* request) { clear(request); }

}  // extern "C"
