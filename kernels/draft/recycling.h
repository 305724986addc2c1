// Token recycling: what the target thought of last time in this context (after Luo et al. 2024).
//
// Every pass answers every token fed with its most likely successors, rejected drafts included. A table keeps the
// latest answers, with the target's own probabilities, to the last two tokens and to the last one, and a tree is read
// off it. Of a prompt, which is fed without answers, each token stands as the answer to the one before.
#pragma once

#include "draft/drafter.h"
#include "draft/memory.h"

namespace edgedec::draft {

// Drafts successors of successors.
class Recycling : public Drafter {
 public:
  explicit Recycling(int bits);  // of the number of contexts that have a place
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

  // What was answered in a context, and in which sequence (its mark); two places fill a cache line. Each context has
  // one place, and what comes there last stays: nothing needs to be searched, and old knowledge is what gives way. A
  // tag tells contexts of one place apart.
  struct alignas(32) Place {
    uint32_t tag;  // 0: nothing here
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
    int cell;  // of its rate
  };
  struct Lesson {
    Context context;
    int32_t tokens[kWidth];
    uint8_t levels[kWidth];
  };

  size_t place_of(uint64_t key) const { return bits_ ? key >> (64 - bits_) : 0; }
  const Place* find(const Context& context) const;
  void store(const Context& context, const int32_t* tokens, const uint8_t* levels);
  void followed(int32_t token, int32_t successor);
  int answers(const Context& context, Answer* found) const;
  void observe(int cell, bool right);

  int bits_;
  Table<Place> table_;
  Context recent_ = {-1, -1};
  uint8_t mark_ = 0;  // of the current sequence
  int heard_ = 0;
  Lesson lessons_[kMostNodes + 1];  // `heard_` of them, to be taken in when it is known what was committed

  // How often answers were right: by whether they were to one token or two, by whether they were given in this
  // sequence, by level, and by whether they came first; and how many observations that is.
  static constexpr int kCells = 2 * 2 * kLevels * 2;
  double rates_[kCells], seen_[kCells];
};

}  // namespace edgedec::draft
