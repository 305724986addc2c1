// Finds numbers of elements that somebody else keeps by their contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgedec::engine {

// Mixes a word into a hash.
inline uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

class HashIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The number with this hash for which `same` holds; kNone: there is none.
  template <class Same>
  uint32_t find(uint64_t hash, Same same) const {
    if (slots_.empty()) return kNone;
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].number == kNone) return kNone;
      if (slots_[at].hash == hash && same(slots_[at].number)) return slots_[at].number;
    }
  }

  void add(uint64_t hash, uint32_t number) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    put({hash, number});
    ++count_;
  }

  void clear() {
    slots_.clear();
    count_ = 0;
  }
  size_t nbytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    uint64_t hash;
    uint32_t number;
  };

  void put(const Slot& slot) {
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].number != kNone) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size(), Slot{0, kNone});
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.number != kNone) put(slot);
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t count_ = 0;
};

}  // namespace edgedec::engine
