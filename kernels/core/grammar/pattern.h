// Regular expressions of JSON schemas, as far as they are regular: no references back, no look-around, no word boundaries.
//
// A pattern is the positions of its characters: which come first, which follow each other, and behind which a text may end.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/grammar/text_steps.h"

namespace edgedec::engine {

using CharClass = CodeRanges;

class Pattern {
 public:
  static constexpr uint32_t kStart = 0;  // the position before the text

  // Reads a pattern of JSON schema, which a text has anywhere in it but for ^ and $. kUsage, with what it cannot have.
  static Status parse(std::string_view text, Pattern* pattern);

  // The positions that may follow `from`.
  const std::vector<uint32_t>& follow(uint32_t from) const { return follow_[from]; }
  // Whether a character may stand at a position, and whether one of a range may.
  bool takes(uint32_t at, uint32_t code) const { return meets(at, code, code); }
  bool meets(uint32_t at, uint32_t low, uint32_t high) const;
  // Whether one of a range may follow `from`.
  bool may_follow(uint32_t from, uint32_t low, uint32_t high) const;
  bool ends(uint32_t at) const { return ends_[at]; }
  // Leaves out positions from which no end is reached; false: there is no text.
  bool trim();

 private:
  friend class PatternParser;
  std::vector<CharClass> classes_;             // of each position
  std::vector<std::vector<uint32_t>> follow_;
  std::vector<char> ends_;
};

}  // namespace edgedec::engine
