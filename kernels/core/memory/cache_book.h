// The rules of a KV cache's slots: edgedec/memory/cache_book.py, without eviction.
//
// A cache is a row of slots. Tokens of a pass take the next slots in the order given; after a chain, slot equals
// position. After a pass over a tree it does not (siblings share a position), so the pass must be settled before the next
// one: `keep` keeps one root path and moves its tokens together, `rewind` drops the pass, or all of it but a beginning
// that is a chain.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/memory/state_book.h"

namespace edgedec::engine {

// A pass that fits: its first slot, and a parent and a position for each of its tokens.
struct PlannedPass {
  int64_t start = 0;
  std::vector<int> parents;
  std::vector<int64_t> positions;
  bool chain = true;

  size_t size() const { return parents.size(); }
};

// Copies of slots that settling a pass takes. All "from" slots are read before any "to" slot is written.
struct SlotMoves {
  std::vector<int64_t> from, to;
};

class CacheBook {
 public:
  // `window`: tokens that some layers see, whose keys and values lie in rings of `ring` slots. `states`: those of recurrent
  // layers, which say how far one can go back; null without such layers.
  explicit CacheBook(int64_t capacity, int64_t window = 0, int64_t ring = 0, StateBook* states = nullptr)
      : capacity_(capacity), window_(window), ring_(ring), states_(states) {}

  int64_t capacity() const { return capacity_; }
  // Slots taken, which is the position of the next token.
  int64_t length() const { return slots_; }
  // The first slot whose keys and values all layers may still hold.
  int64_t oldest() const { return oldest_; }
  // The tokens that a rewind to `length` leaves: 0 if the next one would see a lost slot. States may have no more than a
  // checkpoint with fewer tokens.
  int64_t reachable(int64_t length) const;
  // Whether the next pass may come.
  bool settled() const { return !open_ || last_.chain; }

  // Checks a pass over `tokens` tokens and places it; `append` records it once it was computed. No parents: a chain. The
  // slots that it overwrites in rings count as lost from now on, so a pass may fail midway. kUsage: it is malformed or a
  // tree waits to be settled. kContextFull.
  Status plan(int64_t tokens, Span<const int> parents, PlannedPass* planned);
  // Records that the planned pass was computed; whether a checkpoint of states should be taken now. `planned` gets the
  // memory of the pass before.
  bool append(PlannedPass& planned);
  // Records that the slots of the planned pass were filled otherwise.
  void fill(PlannedPass& planned);
  // Records that rings lack the slots before `end`.
  void lose(int64_t end) { oldest_ = end > oldest_ ? end : oldest_; }
  // Frees every slot from position reachable(length) on.
  Status rewind(int64_t length);
  // Settles the last pass to the path `nodes`.
  Status keep(Span<const int> nodes, SlotMoves* moves);

 private:
  Status check_room(int64_t tokens) const;

  int64_t capacity_, window_, ring_;
  StateBook* states_;
  int64_t oldest_ = 0, slots_ = 0;
  bool open_ = false;  // whether last_ is the newest pass, not yet settled or rewound
  PlannedPass last_;
};

}  // namespace edgedec::engine
