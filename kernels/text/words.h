// Cutting text into words: regular expressions as programs over classes of characters, which edgedec/text/word_programs.py
// makes. A program has no loop but runs of one class, so a match takes bounded time; what is left to bound is the number
// of ways to divide a text among several runs: a budget of steps does that.
#pragma once

#include <string_view>

#include "common/array.h"
#include "text/bpe.h"

namespace edgedec::text {

// The classes of characters, a bit for each, from kMasks.
class Classes {
 public:
  explicit Classes(const Table& table);

  // The mask of the character at the start of `text`, which is not empty, and its bytes.
  uint32_t at(const char* text, size_t length, size_t* bytes);

 private:
  struct Known {
    uint32_t code = kNone, mask = 0;
  };
  static constexpr size_t kKnown = 256;

  uint32_t look_up(uint32_t code) const;

  const Table& table_;
  uint32_t ascii_[128];
  Known known_[kKnown];  // texts recur to the same characters
};

enum Op : uint32_t {
  kRun,     // a class, the fewest and the most characters of it: as many as there are, given back one by one
  kTake,    // a run that gives nothing back
  kEither,  // two ways to go on, the first one first: so many instructions ahead
  kJump,    // so many instructions ahead
  kAhead,   // a class, 1 for "the next character is one of it", 0 for "there is none of it"
  kMatch
};

struct Instruction {
  uint32_t op, a, b, c;
};

// Programs, run over the parts of one text after the other.
class Programs {
 public:
  explicit Programs(const Table& table) : classes_(table) {}

  // Whether a program comes to an end and does not leave itself.
  static bool sound(const Instruction* code, size_t instructions);

  // Bounds the steps of all matches to come.
  void allow(uint64_t steps) { steps_ = steps; }

  // Finds where the match ends that begins at `start`; `start` for none. Returns 0, kDamaged where it took too many
  // steps, or kNoMemory.
  int64_t match(const Instruction* code, std::string_view text, size_t start, size_t* end);

  // The bytes of the character at the start of `text`.
  static size_t step(std::string_view text) {
    uint32_t code;
    return character(text.data(), text.size(), &code);
  }

 private:
  struct Choice {
    uint32_t place;
    size_t at, least;  // where to go on; characters down to `least` may still be given back
  };

  bool run(std::string_view text, const Instruction& code, size_t* at, size_t* least);
  bool holds(std::string_view text, size_t at, uint32_t number);

  Classes classes_;
  Array<Choice> choices_;
  uint64_t steps_ = 0;
};

}  // namespace edgedec::text
