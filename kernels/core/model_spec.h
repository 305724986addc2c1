// The sizes and special tokens of a model: edgedec/core/model_spec.py, which explains each field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace edgedec::engine {

// Keys and values of one size, of layers that keep some of their own; others may read them.
struct Keys {
  int64_t layers = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // the newest tokens, whose keys lie in rings; 0: all
};

// Newest tokens of a sequence whose rows a trail holds.
constexpr int64_t kTrailSlots = 32;

// The memory of recurrent layers, whose size does not depend on the context: edgedec/core/cache_kinds.py.
struct States {
  int64_t layers = 0;
  int64_t row = 0;    // numbers that the recurrence needs of one token
  int64_t tail = 0;   // rows before a pass that it reads, which a checkpoint keeps
  int64_t state = 0;  // numbers of one layer's state; 0: the rows are all there is
  const char* name = "";
};

// Experts of a layer, of which each token takes a few: edgedec/core/experts.py. A drafter's layer states the first three.
struct Experts {
  int64_t count = 0, chosen = 0, width = 0;
  int64_t layers = 0;                  // that have experts
  int64_t slot_bytes = 0, nbytes = 0;  // of the largest one as it lies in the file, and of all in all layers
  int64_t shared = 0;                  // width of one beside them that computes every token; 0: there is none

  int64_t total() const { return layers * count; }
  // How many are in memory at the least where passes read them from the disk.
  int64_t least() const { return 4 * chosen < total() ? 4 * chosen : total(); }
};

// Bytes that the operating system commits at a time, as plans count them.
constexpr int64_t kPage = 4096;

// How long rings are beside their window and a pass.
struct RingSizes {
  // Tokens that can be rewound: a reply of usual length that is regenerated. A longer rewind empties the cache.
  int64_t slack = 256;
  int64_t page = kPage;  // bytes of which a ring fills whole ones
};

// Sizes are in elements; ids are token ids. A manifest states every field up to `table_bytes`.
struct ModelSpec {
  std::string name, architecture;
  int64_t vocab_size = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, hidden_size = 0, context_length = 0;
  int64_t bos_id = -1;  // -1: none
  std::vector<int32_t> eos_ids;
  int64_t head_k = 64;
  int64_t ffn_size = 0;
  int64_t n_window_layers = 0, window = 0;  // layers with rings, and the tokens that they see
  int64_t table_bytes = 0;  // bytes of a table of embeddings that the head does not share
  // The kinds of cache, where the fields above do not say it all; none: ask keys_of.
  std::vector<Keys> keys;
  std::vector<States> states;
  Experts experts;  // none: their count is 0
  RingSizes rings;
};

// Rows of gates that a token takes of MLPs and experts, in all layers together.
inline double taken_rows(const ModelSpec& spec) {
  const auto real = [](int64_t size) { return static_cast<double>(size); };  // a manifest may state any sizes
  const Experts& experts = spec.experts;
  const double mixed = real(experts.chosen) * real(experts.width) + real(experts.shared);
  return real(spec.n_layers - experts.layers) * real(spec.ffn_size) + real(experts.layers) * mixed;
}

// Bytes that a pass over one token reads of `weights`, those of all matrices. Experts may not be among them.
inline double read_bytes(const ModelSpec& spec, int64_t weights) {
  const Experts& experts = spec.experts;
  if (!experts.count) return static_cast<double>(weights);
  const int64_t dense = weights > experts.nbytes ? weights - experts.nbytes : weights;
  const double others = 1.0 - static_cast<double>(experts.chosen) / static_cast<double>(experts.count);
  return static_cast<double>(dense) + static_cast<double>(experts.nbytes) * (1.0 - others);
}

// The kinds that hold keys and values.
inline std::vector<Keys> keys_of(const ModelSpec& spec) {
  if (!spec.keys.empty() || !spec.states.empty()) return spec.keys;
  std::vector<Keys> found;
  const int64_t whole = spec.n_layers - spec.n_window_layers;
  if (whole) found.push_back({whole, spec.n_kv_heads, spec.head_dim, 0});
  if (spec.n_window_layers) found.push_back({spec.n_window_layers, spec.n_kv_heads, spec.head_dim, spec.window});
  return found;
}

}  // namespace edgedec::engine
