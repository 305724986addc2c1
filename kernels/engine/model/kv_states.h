// The recurrent states of a sequence: the memory, and the book of the tokens that it covers, in step.
// edgedec/backends/onnx/kv_states.py.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/decode/forward.h"
#include "core/memory/ledger.h"
#include "core/memory/state_book.h"
#include "engine/model/state_memory.h"

namespace edgedec::engine {

// CacheBook changes the book; `follow` lets the memory go with it. A checkpoint is taken behind a long pass, and behind the
// first pass after a rewind: there a reply, or a draft, began, and may begin again.
class KvStates {
 public:
  // kNoMemory, and kMemoryBudget: the bytes are leased from `ledger`.
  Status allocate(Span<const States> kinds, Ledger* ledger);

  bool any() const { return !memory_.kinds().empty(); }
  StateMemory& memory() { return memory_; }
  const StateMemory& memory() const { return memory_; }
  // Null without recurrent layers.
  StateBook* book() { return any() ? &book_ : nullptr; }
  // The input of the graph that says how many tokens the states cover.
  const int64_t* applied() const { return &applied_; }

  // Tells the pass that comes how many tokens the states cover. Until `done` nobody knows.
  void begin();
  // The pass was computed: takes a checkpoint if told so, or after a rewind.
  void done(bool keep);
  // Brings the states to those tokens that the book says they cover, after a rewind.
  void follow();
  Status write(CacheSink& sink, int64_t length) const;
  Status read(CacheSource& source, int64_t length);

 private:
  void keep();

  StateMemory memory_;
  StateBook book_;
  Lease lease_;
  int64_t applied_ = 0;
  int64_t covered_ = 0;  // tokens that the states in memory cover
  bool due_ = false;     // whether the next pass is the first one after a rewind
};

}  // namespace edgedec::engine
