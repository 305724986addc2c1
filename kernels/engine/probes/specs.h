// Specifications of models that tests hand over as numbers.
#pragma once

#include <cstdint>

#include "core/model_spec.h"

namespace edgedec::engine {

// Takes the sizes in the order of the fields: from vocab_size to context_length, head_k and those behind it.
inline ModelSpec spec_of(const char* name, const int64_t** sizes) {
  ModelSpec spec;
  spec.name = name;
  int64_t* const fields[] = {&spec.vocab_size, &spec.n_layers,        &spec.n_heads,        &spec.n_kv_heads,
                             &spec.head_dim,   &spec.hidden_size,     &spec.context_length, &spec.head_k,
                             &spec.ffn_size,   &spec.n_window_layers, &spec.window,         &spec.table_bytes};
  for (int64_t* field : fields) *field = *(*sizes)++;
  return spec;
}

}  // namespace edgedec::engine
