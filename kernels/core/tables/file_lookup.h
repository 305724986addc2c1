// Drafts from a user's own files: the tokens that followed the latest ones there.
//
// After REST (He et al. 2023) and RASD (2025): drafts by retrieval. The index has the tokens of all files with a separator
// behind each, and all places in them, ordered by the tokens before a place read backwards. So the places whose text
// before agrees with the latest tokens stand side by side, those that agree longest in the middle, and one binary search
// finds them. Its continuations make a tree: a token weighs as much as the matches that it follows. Of many equally long
// matches some are taken, at equal distances.
#pragma once

#include "core/tables/drafter.h"

namespace edgedec::draft {

// Drafts from an index, which lives longer and is not changed. Any numbers may be in it: those outside the index or the
// vocabulary draft nothing.
class FileLookup : public Drafter {
 public:
  static constexpr int kDeepest = 32;  // tokens before a place by which places are ordered

  // tokens[count]; order[count]: places in it, as above.
  FileLookup(const int32_t* tokens, const int32_t* order, size_t count, int32_t vocab)
      : tokens_(tokens), order_(order), count_(static_cast<int64_t>(count)), vocab_(vocab) {}

  void begin(const int32_t* tokens, size_t count, size_t kept) override;
  void commit(const int32_t* tokens, size_t count) override;
  void learn(size_t, const int32_t*, const int32_t*, const Answers&) override {}  // files do not change
  int propose(int64_t limit, double floor, const Tree& tree) const override;
  size_t nbytes() const override { return static_cast<size_t>(count_) * 2 * sizeof(int32_t) + sizeof *this; }
  size_t saved_size() const override { return 0; }
  void save(uint8_t*) const override {}
  Restored restore(const uint8_t*, size_t size, int64_t) override { return size ? Restored::kSize : Restored::kDone; }

 private:
  static constexpr int kMatches = 24;  // matches that are compared
  struct Match {
    int64_t next;
    int length;
  };
  struct Span {  // a range of the matches
    int first, count;
  };

  int find(Match* found) const;
  int common(int64_t rank, int most) const;
  int64_t first_not(bool below, int length) const;
  int64_t place(int64_t rank) const;
  int32_t token(int64_t at) const;

  template <class Put>
  void following(Match* matches, Span span, const Put& put) const;

  const int32_t *tokens_, *order_;
  int64_t count_;
  int32_t vocab_;
  int32_t latest_[kDeepest];  // the latest committed tokens, the last one first
  int known_ = 0;
};

}  // namespace edgedec::draft
