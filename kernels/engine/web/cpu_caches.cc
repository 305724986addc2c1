#include "engine/web/cpu_caches.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/sizes.h"

namespace edgedec::engine {

Status CpuCaches::allocate(const CpuShape& shape, int64_t capacity, KvType kv) {
  capacity_ = static_cast<size_t>(capacity);
  kv_type_ = kv;
  for (const Keys& kind : shape.keys) {
    const auto row = static_cast<size_t>(kv_row_bytes(kind.head_dim, kv)) / sizeof(uint16_t);
    keys_.push_back({static_cast<size_t>(kind.layers), static_cast<size_t>(kind.kv_heads), row, slot_});
    slot_ += 2 * keys_.back().layers * keys_.back().heads * row;
  }
  if (slot_ > SIZE_MAX / 4 / sizeof(uint16_t) / capacity_)
    return {Code::kNoMemory, "a context of " + decimal(capacity) + " tokens is more than a program can address",
            "use a smaller context"};
  if (slot_) EDGEDEC_TRY(kv_.allocate(slot_ * sizeof(uint16_t) * capacity_, "the KV cache"));
  return shape.states.empty() ? Status() : states.allocate(shape.states);
}

void CpuCaches::lay_out(size_t kind, size_t at, const tree_attention::Config& config, tree_attention::Cache* cache) const {
  const Place& keys = keys_[kind];
  tree_attention::lay_out(config, part(keys, at * 2 * keys.heads), capacity_, keys.row, cache);
}

void CpuCaches::move(const SlotMoves& moves) {
  if (moves.from.empty()) return;
  for (const Place& keys : keys_) {
    moved_.resize(moves.from.size() * keys.row);
    for (size_t at = 0; at < keys.layers * 2 * keys.heads; ++at) {
      uint16_t* rows = part(keys, at);
      for (size_t one = 0; one < moves.from.size(); ++one)
        std::copy_n(rows + static_cast<size_t>(moves.from[one]) * keys.row, keys.row, moved_.data() + one * keys.row);
      for (size_t one = 0; one < moves.to.size(); ++one)
        std::copy_n(moved_.data() + one * keys.row, keys.row, rows + static_cast<size_t>(moves.to[one]) * keys.row);
    }
  }
  states.move(moves);
}

}  // namespace edgedec::engine
