// Byte-pair encoding over a table in a mapped file: text to token ids, without Python and ONNX Runtime.
//
// A table holds the vocabulary and the merges of a tokenizer. Merging repeats: of all neighbouring symbols that a merge
// joins, the pair of the lowest rank, and of those the leftmost, becomes one symbol. That takes O(n log n) for a piece of
// n characters. What happens before, the rules of normaliser and pre-tokeniser, is in steps.h.
//
// The file may be truncated or hostile: every number in it is checked before it is used, and nothing is written to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/array.h"

namespace edgedec::text {

constexpr uint32_t kNone = 0xFFFFFFFF;  // no token

enum Failure : int64_t {
  kDone = 0,
  kMissing = -1,  // no token is spelled so
  kDamaged = -2,  // the table contradicts itself
  kNoRoom = -3,   // the result is longer than the room for it
  kNoMemory = -4,
};

// The parts of the file, each an offset and a number of elements in the header. Numbers are little-endian u32.
enum Part {
  kFacts,          // bytes: normaliser, pre-tokeniser and facts of the model, as JSON, for Python
  kStarts,         // [ids + 1]: where the spelling of each id begins in kSpellings
  kSpellings,      // bytes in UTF-8
  kKinds,          // bytes [ids]: Kind
  kSorted,         // ids that have a spelling, in the order of its bytes
  kChars,          // {character, id}, ascending: tokens of the vocabulary that are one character
  kByteTokens,     // [256]: ids of <0x00> to <0xFF>, or kNone
  kRows,           // [ids + 1]: where the merges of each left id begin in kMerges
  kMerges,         // {right id, rank, id of both}, ascending by right id
  kPatterns,       // {start, length, id}: added tokens in the order of their bytes; first those that are found in the text,
                   // then those that are found after the normaliser
  kPatternText,    // bytes of the patterns
  kFirst,          // [2][257]: where the patterns with each first byte begin in kPatterns, and where they end
  kRules,          // the steps of normaliser and pre-tokeniser: see steps.h
  kRuleText,       // bytes of texts in kRules
  kMasks,          // {first character, mask}, ascending: the classes of characters up to the next entry, a bit for each
  kDecomposed,     // {character, start, count}, ascending: its canonical decomposition in kDecomposition
  kDecomposition,  // characters
  kCombining,      // {character, class}, ascending: characters whose combining class is not 0
  kComposed,       // {first, second, both}, ascending: characters that become one
  kParts
};

enum Kind : uint8_t { kInVocabulary = 1, kAdded = 2, kSpecial = 4, kLeftStrip = 8, kRightStrip = 16, kNormalized = 32 };
enum Flag : uint32_t { kByteFallback = 1, kFuseUnknown = 2, kWholeFirst = 4, kAddsSpace = 8 };

struct Header {
  char magic[8];  // "EDGEBPE2"
  uint32_t checksum;  // CRC-32 of all that follows this field
  uint32_t flags;     // Flag
  uint32_t unknown;   // the token for characters without one, or kNone
  uint32_t ids;       // the highest id, plus 1
  uint8_t source[32];  // SHA-256 of the tokenizer.json that the table was made of
  struct {
    uint64_t offset;
    uint64_t count;
  } parts[kParts];
};

// A view of a table; cheap to make, and valid as long as the file is mapped.
class Table {
 public:
  // False if the sizes of the parts do not fit the file, or each other.
  bool open(const uint8_t* data, size_t size);

  uint32_t flags() const { return header_->flags; }
  uint32_t unknown() const { return header_->unknown; }
  bool known(uint32_t id) const { return id < header_->ids; }
  uint8_t kind(uint32_t id) const { return known(id) ? data_[header_->parts[kKinds].offset + id] : 0; }
  uint64_t count(Part part) const { return header_->parts[part].count; }
  const uint32_t* words(Part part) const {
    return reinterpret_cast<const uint32_t*>(data_ + header_->parts[part].offset);
  }
  const char* bytes(Part part) const { return reinterpret_cast<const char*>(data_ + header_->parts[part].offset); }

  // The spelling of an id; false for an id outside the table, or a damaged place.
  bool spelling(uint32_t id, const char** text, size_t* length) const;

 private:
  const uint8_t* data_ = nullptr;
  const Header* header_ = nullptr;
};

// The id of a spelling, or kMissing or kDamaged.
int64_t find(const Table& table, const char* text, size_t length);

// A part of a text: an added token, or text between such tokens, whose id is kNone.
struct Stretch {
  size_t start, end;
  uint32_t id;
};

// Bytes of a text that no control token may contain, ascending: text from outside begins like one there.
struct Literals {
  const size_t* at = nullptr;
  size_t count = 0;
};

// How control tokens in a text are read: as tokens but where one contains a byte of `literal`, or all of them as text.
struct Specials {
  bool found = false;
  Literals literal = {};
};

// Finds added tokens: leftmost, of those the longest. `rewritten`: those that are found after the normaliser. Returns 0,
// kDamaged or kNoMemory.
int64_t split(const Table& table, bool rewritten, Specials specials, std::string_view text, Array<Stretch>* out);

// The bytes of the character at the start of text, and its code point. Bytes that are not UTF-8 count alone, as kNone.
size_t character(const char* text, size_t length, uint32_t* code);

}  // namespace edgedec::text
