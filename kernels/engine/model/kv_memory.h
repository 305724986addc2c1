// The memory of a cache: keys and values of layers that see all tokens, rings of those that see the newest, and recurrent
// states.
// edgedec/backends/onnx/kv_memory.py, for one sequence.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/model_spec.h"
#include "core/memory/ledger.h"
#include "core/decode/forward.h"
#include "engine/model/kv_pages.h"
#include "engine/model/kv_states.h"

namespace edgedec::engine {

struct SlotMoves;

// Keys and values of `capacity` tokens, and of layers with a window of the `ring` newest (0: of all). A row is head_dim
// fp16 numbers, or head_dim bytes and their scales. What recurrent layers keep does not depend on the tokens.
class KvMemory {
 public:
  // kNoMemory when the address space cannot be had. The bytes are leased from `ledger` by `use`.
  Status allocate(const ModelSpec& spec, int64_t capacity, KvType kv, int64_t ring, Ledger* ledger);

  // Takes the lease; call it before slots are written. kMemoryBudget.
  Status use() { return lease_.grow(reserved()); }

  // Inputs of the graph; null where the model has no layers with a window.
  const KvPages& whole() const { return whole_; }
  const KvPages* rings() const { return windowed_ ? &rings_ : nullptr; }
  KvStates& states() { return states_; }
  const KvStates& states() const { return states_; }
  int64_t capacity() const { return whole_.rows(); }
  // Slots of the rings; 0 without layers with a window.
  int64_t ring() const { return windowed_ ? rings_.rows() : 0; }
  // Bytes of all slots of keys and values, written or not.
  int64_t reserved() const { return whole_.bytes() + (windowed_ ? rings_.bytes() : 0); }

  void move(const SlotMoves& moves);
  // Returns the pages behind the first `length` slots to the operating system; whether it was done. It is not done for a
  // few pages, counted up to slot `reached`, unless `length` is 0. The contents of returned slots are undefined.
  bool release(int64_t length, int64_t reached);

  // Format, then layers x 2 (keys and values) x heads x bytes of a row: "fp16 30x2x3x128". Rings follow, with the most
  // slots that are written: "fp16 3x2x1x512 15x2x1x512x768". So do states: "fp16 6x2x2x512 delta 18x6176x262144".
  std::string layout() const;
  // Bytes of `slots` slots, as written.
  int64_t bytes(int64_t slots) const;
  // Writes the first `slots` slots without a copy; of rings the newest ones. Slots of rings before `oldest` are lost and
  // written as zeros.
  Status write(CacheSink& sink, int64_t slots, int64_t oldest) const;
  // Fills the first `slots` slots, in rings the newest ones, and finds the oldest of these. kBadFile when that slot
  // cannot be the oldest.
  Status read(CacheSource& source, int64_t slots, int64_t* oldest);

 private:
  Status write_rings(CacheSink& sink, int64_t slots, int64_t oldest) const;
  Status read_rings(CacheSource& source, int64_t slots, int64_t* oldest);

  KvType kv_ = KvType::kFp16;
  int64_t kept_ = 0;
  bool windowed_ = false;
  KvPages whole_, rings_;
  KvStates states_;
  Lease lease_;
};

}  // namespace edgedec::engine
