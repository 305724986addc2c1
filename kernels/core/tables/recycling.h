// Token recycling: drafts the tokens that the target predicted last time in this context (after Luo et al. 2024).
//
// Every pass predicts the most likely successors of each of its tokens, rejected drafts included. A table keeps the
// latest of these answers, with the target's probabilities, for contexts of two tokens and of one. The draft tree is
// read from the table. A prompt is read without predictions: there each token counts as the answer to the one before.
#pragma once

#include "core/tables/drafter.h"
#include "core/tables/memory.h"

namespace edgedec::draft {

// Drafts successors of successors.
class Recycling : public Drafter {
 public:
  explicit Recycling(int bits);  // base-2 logarithm of the number of entries
  explicit operator bool() const { return static_cast<bool>(table_); }

  void begin(const int32_t* tokens, size_t count, size_t kept) override;
  void commit(const int32_t* tokens, size_t count) override;
  void learn(size_t nodes, const int32_t* tokens, const int32_t* parents, const Answers& answers) override;
  int propose(int64_t limit, double floor, const Tree& tree) const override;
  size_t nbytes() const override { return table_.nbytes(); }
  size_t saved_size() const override;
  void save(uint8_t* out) const override;
  Restored restore(const uint8_t* data, size_t size, int64_t vocab) override;

  static constexpr int kWidth = 4;    // answers kept per context
  static constexpr int kLevels = 16;  // a probability is kept as its level, p * kLevels rounded down

  // The answers in a context, and the sequence they come from (its mark). Two entries fill a cache line. Each context
  // maps to one entry, and the latest answers replace older ones, so nothing is searched. The tag tells contexts of the
  // same entry apart.
  struct alignas(32) Entry {
    uint32_t tag;  // 0: empty
    int32_t tokens[kWidth];
    uint8_t levels[kWidth];
    uint8_t mark;
  };

 private:
  struct Context {  // the last two tokens; -1 for none
    int32_t before, last;
  };
  struct Answer {
    int32_t token;
    int cell;  // index of its rate
  };
  struct Lesson {
    Context context;
    int32_t tokens[kWidth];
    uint8_t levels[kWidth];
  };

  size_t index_of(uint64_t key) const { return bits_ ? key >> (64 - bits_) : 0; }
  const Entry* find(const Context& context) const;
  void store(const Context& context, const int32_t* tokens, const uint8_t* levels);
  void followed(int32_t token, int32_t successor);
  int answers(const Context& context, Answer* found) const;
  void observe(int cell, bool right);

  int bits_;
  Table<Entry> table_;
  Context recent_ = {-1, -1};
  uint8_t mark_ = 0;  // the current sequence
  int heard_ = 0;
  Lesson lessons_[kMostNodes + 1];  // the first `heard_` wait for the commit that follows

  // How often answers were right, and the number of observations. Cells are split by context of one token or two, by
  // this or an earlier sequence, by level, and by first or later answer.
  static constexpr int kCells = 2 * 2 * kLevels * 2;
  double rates_[kCells], seen_[kCells];
};

}  // namespace edgedec::draft
