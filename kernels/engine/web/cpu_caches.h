// Keys, values and recurrent states of one sequence, of which every layer keeps all tokens.
#pragma once

#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/decode/forward.h"
#include "engine/base/block.h"
#include "engine/model/state_memory.h"
#include "engine/web/cpu_program.h"

namespace edgedec::engine {

class CpuCaches {
 public:
  Status allocate(const CpuShape& shape, int64_t capacity, KvType kv);

  size_t capacity() const { return capacity_; }
  // Describes the layer `at` of keys of this kind. `config` is that of an attention over them.
  void lay_out(size_t kind, size_t at, const tree_attention::Config& config, tree_attention::Cache* cache) const;
  // Copies slots; all are read before any is written.
  void move(const SlotMoves& moves);
  // Bytes of keys and values of a token.
  int64_t slot_bytes() const { return static_cast<int64_t>(slot_ * sizeof(uint16_t)); }
  KvType kv() const { return kv_type_; }
  int64_t bytes() const { return slot_bytes() * static_cast<int64_t>(capacity_) + states.bytes(); }
  // Bytes of one kind's keys and values of a token, in one layer.
  int64_t layer_bytes(size_t kind) const { return static_cast<int64_t>(2 * keys_[kind].heads * keys_[kind].row * sizeof(uint16_t)); }

  StateMemory states;

 private:
  // The keys and values of a kind. Sizes are in units of two bytes.
  struct Place {
    size_t layers, heads, row, first;
  };

  uint16_t* part(const Place& keys, size_t at) const { return kv_.as<uint16_t>() + (keys.first + at * keys.row) * capacity_; }

  std::vector<Place> keys_;
  size_t capacity_ = 0, slot_ = 0;
  KvType kv_type_ = KvType::kFp16;
  Block kv_;
  std::vector<uint16_t> moved_;
};

}  // namespace edgedec::engine
