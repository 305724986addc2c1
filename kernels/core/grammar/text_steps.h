// Strings of JSON and numbers, byte by byte.
#pragma once

#include <cstdint>
#include <vector>

namespace edgedec::engine {

// A place within a string. Characters are valid UTF-8; those below a space, and the one of 127, are escaped.
enum TextPhase : uint8_t {
  kPlain,
  kEscape,     // behind a backslash
  kControl,    // behind \u of a character that needs to be escaped: 00, then 00 to 1f or 7f
  kControl1,
  kControl2,
  kControlAny,
  kControl7,
  kTail1,      // one more byte of a character, or more
  kTail2,
  kTail3,
  kAfterE0,
  kAfterED,
  kAfterF0,
  kAfterF4,
  kCode,       // behind \u of any character
  kCode3,      // three more digits, or fewer
  kCode2,
  kCode1,
  kCodeD,      // behind d: a surrogate, or none
  kHigh2,      // a high surrogate, which a low one has to follow
  kHigh1,
  kHigh,
  kLowU,
  kLow,
  kLowD,
  kTextEnd,    // behind the closing quote
  kNoText,
};

// The place behind `byte`. `general`: \u may spell any character.
TextPhase text_step(TextPhase phase, uint8_t byte, bool general);

// Characters from `low` to `high`.
struct CodeRange {
  uint32_t low, high;
};
using CodeRanges = std::vector<CodeRange>;

// A character of a string as far as it was read, of which \u spells those alone that need it.
struct PartialCode {
  uint32_t bits = 0;

  // Adds the byte that leads from one place to the next.
  void add(TextPhase from, TextPhase to, uint8_t byte);
  // The characters that it may become.
  CodeRanges open(TextPhase at) const;
};

// A place within a number.
enum NumberPhase : uint8_t { kMinus, kZero, kWhole, kPoint, kFraction, kExponent, kSign, kPower, kNoNumber };

// The place that a number begins with, and the one behind `byte`.
NumberPhase number_begin(uint8_t byte);
NumberPhase number_step(NumberPhase phase, uint8_t byte);
inline bool is_number(NumberPhase phase) {
  return phase == kZero || phase == kWhole || phase == kFraction || phase == kPower;
}

// Whether an integer from `least` to `most` is one from `low` to `high`, or begins with its digits.
bool may_begin(uint64_t low, uint64_t high, uint64_t least, uint64_t most);

// The value of a hexadecimal digit; -1 for others.
inline int hex_value(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const int lower = byte | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The letter behind a backslash that stands for a character; 0: there is none.
uint8_t short_escape(uint8_t character);

}  // namespace edgedec::engine
