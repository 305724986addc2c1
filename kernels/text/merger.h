// Byte-pair encoding of the pieces of a text: see bpe.h.
#pragma once

#include "common/array.h"
#include "text/bpe.h"

namespace edgedec::text {

// Remembers pairs, so one object serves many pieces. It is large.
class Merger {
 public:
  explicit Merger(const Table& table);

  // Finds the ids of a piece; false where the table is damaged or memory is lacking.
  bool merge(const char* text, size_t length);

  const Array<uint32_t>& ids() const { return ids_; }
  // Why merge() returned false.
  Failure failure() const { return lacks_memory_ ? kNoMemory : kDamaged; }

 private:
  struct Join {
    uint32_t rank = kNone, id = kNone;
  };
  struct Candidate {
    uint32_t rank, position;
    bool operator<(const Candidate& other) const {  // std::*_heap keep the largest in front: the next to join
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  struct Known {
    uint32_t left = kNone, right = kNone;
    Join join;
  };
  static constexpr int kKnownBits = 11;

  bool there(bool room) {
    if (!room) lacks_memory_ = true;
    return room;
  }
  bool put(uint32_t id) { return there(ids_.push_back(id)); }
  uint32_t char_token(uint32_t code) const;
  bool symbols(const char* text, size_t length);
  bool joined(uint32_t left, uint32_t right, Join* join);
  bool look_up(uint32_t left, uint32_t right, Join* join) const;
  bool scan();
  bool heap();
  bool offer(uint32_t at, uint32_t count);

  const Table& table_;
  uint32_t ascii_[128];
  Known known_[1 << kKnownBits];
  bool lacks_memory_ = false;
  Array<uint32_t> ids_, next_, before_;
  Array<Join> joins_;  // of each symbol with the next one
  Array<Candidate> heap_;
};

}  // namespace edgedec::text
