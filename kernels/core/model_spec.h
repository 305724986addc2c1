// The sizes and special tokens of a model: edgedec/core/model_spec.py, which explains each field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace edgedec::engine {

// Sizes are in elements; ids are token ids. A manifest states every field.
struct ModelSpec {
  std::string name, architecture;
  int64_t vocab_size = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, hidden_size = 0, context_length = 0;
  int64_t bos_id = -1;  // -1: none
  std::vector<int32_t> eos_ids;
  int64_t head_k = 64;
  int64_t ffn_size = 0;
  int64_t n_window_layers = 0, window = 0;  // layers with rings, and the tokens that they see
  int64_t table_bytes = 0;  // bytes of a table of embeddings that the head does not share
};

}  // namespace edgedec::engine
