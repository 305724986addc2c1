// Text to token ids: added tokens, normaliser, pre-tokeniser and merges, as the rules of a table say.
//
// kRules has one rule behind the other, each a number of Rule and its values. Texts are {start, length} in kRuleText.
#pragma once

#include <string_view>

#include "common/array.h"
#include "text/bpe.h"
#include "text/merger.h"
#include "text/words.h"

namespace edgedec::text {

enum Rule : uint32_t {
  kCompose,    // NFC
  kReplace,    // text, other text: each occurrence becomes the other
  kPrepend,    // text: put in front of what is not empty
  kSpaces,     // text, When: it stands for each space, and is put in front
  kSplit,      // Behaviour, 1 to invert, number of instructions, instructions: cut at each match
  kAlphabet,   // bytes become characters of the alphabet of byte-level BPE
  kRuleCount
};
// The character that stands for a byte in byte-level BPE: printable Latin-1 for itself, others from U+0100 on.
constexpr uint32_t letter(uint32_t byte) {
  if (byte <= 0x20) return 0x100 + byte;
  if (byte < 0x7F) return byte;
  if (byte <= 0xA0) return 0x100 + byte - 0x7F + 0x21;
  return byte == 0xAD ? 0x143 : byte;
}

enum When : uint32_t { kNever, kAlways, kAtFirst };
enum Behaviour : uint32_t { kIsolated, kRemoved, kContiguous, kWithPrevious, kWithNext };

// Text to ids. It is large, and remembers what recurs.
class Encoder {
 public:
  explicit Encoder(const Table& table) : table_(table), programs_(table), merger_(table) {}

  // False where the rules are none.
  bool open();

  // Whether it makes texts shorter by composing characters.
  bool composes() const;

  // Appends the ids of a text. Returns 0, kDamaged or kNoMemory.
  int64_t encode(std::string_view text, Specials specials, Array<uint32_t>* ids);

 private:
  static constexpr size_t kMostRules = 40;

  struct Rewrite {
    Rule rule;
    std::string_view one, other;
  };
  struct Split {
    Behaviour behaviour;
    bool invert;
    const Instruction* code;
  };
  class Pieces;

  bool read_rule(const uint32_t* rules, size_t count, size_t* at);
  bool read_text(const uint32_t* words, std::string_view* text) const;
  int64_t encode_part(std::string_view text, Specials specials);
  int64_t normalize(std::string_view text, bool in_front = true);
  int64_t follow(std::string_view text, Literals literal, size_t* bytes);
  int64_t cut_normal(std::string_view text, Specials specials);
  int64_t write(uint32_t id);
  int64_t cut(std::string_view text);
  int64_t cut_by(size_t number, std::string_view text);
  int64_t merge(std::string_view piece);

  const Table& table_;
  Programs programs_;
  Merger merger_;
  Rewrite rewrites_[kMostRules];
  Split splits_[kMostRules];
  size_t rewrite_count_ = 0, split_count_ = 0;
  std::string_view space_;  // what kSpaces writes
  When in_front_ = kNever;
  bool alphabet_ = false;

  Array<uint32_t>* ids_ = nullptr;
  bool first_ = true;  // nothing was written yet
  Array<Stretch> parts_, normal_parts_;
  Array<size_t> literals_, followed_;  // of a part, and in its normal form
  Array<char> normal_, spare_, spaced_, spelled_;
};

}  // namespace edgedec::text
