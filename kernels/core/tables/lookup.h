// Prompt lookup: drafts the tokens that followed earlier occurrences of the latest tokens.
//
// Sources: prompt lookup decoding (Saxena 2023), SAM-Decoding (Hu et al. 2024); without an automaton. Matches are found
// with hash chains, as in LZ77: a table maps the hash of two tokens to their latest position, another each position to
// the one before it. Appending a token costs two writes, forgetting one two more. Several matches make a tree, in which
// continuations share prefixes. A token's probability is the weight of the matches that it follows, divided by the
// weight of all matches plus a constant for doubt.
#pragma once

#include "core/tables/drafter.h"
#include "core/tables/memory.h"

namespace edgedec::draft {

// Drafts from the committed tokens of this sequence and of earlier ones.
class Lookup : public Drafter {
 public:
  explicit Lookup(size_t capacity);
  explicit operator bool() const { return log_ && before_ && latest_; }

  void begin(const int32_t* tokens, size_t count, size_t kept) override;
  void commit(const int32_t* tokens, size_t count) override;
  void learn(size_t, const int32_t*, const int32_t*, const Answers&) override {}  // learns from committed tokens only
  int propose(int64_t limit, double floor, const Tree& tree) const override;
  size_t nbytes() const override { return log_.nbytes() + before_.nbytes() + latest_.nbytes(); }
  size_t saved_size() const override { return static_cast<size_t>(length_) * sizeof(int32_t); }
  void save(uint8_t* out) const override;
  Restored restore(const uint8_t* data, size_t size, int64_t vocab) override;

 private:
  // An earlier occurrence: its next position, its weight, and the gain of weight with every further matching token.
  struct Match {
    int64_t next;
    double weight, gain;
  };
  static constexpr int kMatches = 12;  // positions compared, the latest first
  struct Span {                        // a range of the matches
    int first, count;
  };

  int find(Match* found) const;
  int64_t common(int64_t position, int64_t end) const;
  template <class Put>
  void following(Match* matches, Span span, const Put& put) const;
  void append(int32_t token);
  void cut(int64_t length);
  void forget_oldest();
  void new_sequence();
  size_t bucket(int64_t position) const;

  Table<int32_t> log_;
  Table<int32_t> before_;  // the next older position of the same bucket
  Table<int32_t> latest_;  // the latest position of each bucket
  int64_t length_ = 0;     // length of the log
  int64_t begin_ = 0;      // where the current sequence begins in the log; below 0 when its first tokens are lost
};

}  // namespace edgedec::draft
