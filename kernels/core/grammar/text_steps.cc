#include "core/grammar/text_steps.h"

#include <string_view>

namespace edgedec::engine {
namespace {

constexpr uint8_t kRubout = 0x7F;

bool within(uint8_t byte, int low, int high) { return byte >= low && byte <= high; }
bool is_digit(uint8_t byte) { return within(byte, '0', '9'); }
TextPhase when(bool sound, TextPhase phase) { return sound ? phase : kNoText; }

TextPhase plain_step(uint8_t byte) {
  if (byte == '"') return kTextEnd;
  if (byte == '\\') return kEscape;
  if (byte < 0x20 || byte == kRubout) return kNoText;
  if (byte < 0x80) return kPlain;
  if (byte == 0xE0) return kAfterE0;
  if (byte == 0xED) return kAfterED;
  if (byte == 0xF0) return kAfterF0;
  if (byte == 0xF4) return kAfterF4;
  if (within(byte, 0xC2, 0xDF)) return kTail1;
  if (within(byte, 0xE1, 0xEF)) return kTail2;
  return when(within(byte, 0xF1, 0xF3), kTail3);
}

TextPhase escape_step(uint8_t byte, bool general) {
  if (byte == 'u') return general ? kCode : kControl;
  return when(std::string_view("\"\\bfnrt").find(static_cast<char>(byte)) != std::string_view::npos, kPlain);
}

// Behind \u of a character that needs an escape.
TextPhase control_step(TextPhase phase, uint8_t byte) {
  const int digit = hex_value(byte);
  if (phase == kControl || phase == kControl1) return when(digit == 0, phase == kControl ? kControl1 : kControl2);
  if (phase == kControl2) return digit == 7 ? kControl7 : when(digit == 0 || digit == 1, kControlAny);
  return when(phase == kControl7 ? digit == 15 : digit >= 0, kPlain);
}

TextPhase tail_step(TextPhase phase, uint8_t byte) {
  switch (phase) {
    case kAfterE0: return when(within(byte, 0xA0, 0xBF), kTail1);
    case kAfterED: return when(within(byte, 0x80, 0x9F), kTail1);
    case kAfterF0: return when(within(byte, 0x90, 0xBF), kTail2);
    case kAfterF4: return when(within(byte, 0x80, 0x8F), kTail2);
    case kTail3: return when(within(byte, 0x80, 0xBF), kTail2);
    case kTail2: return when(within(byte, 0x80, 0xBF), kTail1);
    default: return when(within(byte, 0x80, 0xBF), kPlain);
  }
}

// Behind \u of any character; a high surrogate needs a low one.
TextPhase code_step(TextPhase phase, uint8_t byte) {
  const int digit = hex_value(byte);
  switch (phase) {
    case kCode: return digit == 13 ? kCodeD : when(digit >= 0, kCode3);
    case kCode3: return when(digit >= 0, kCode2);
    case kCode2: return when(digit >= 0, kCode1);
    case kCode1: return when(digit >= 0, kPlain);
    case kCodeD: return within(byte, '0', '7') ? kCode2 : when(digit >= 8 && digit < 12, kHigh2);
    case kHigh2: return when(digit >= 0, kHigh1);
    case kHigh1: return when(digit >= 0, kHigh);
    case kHigh: return when(byte == '\\', kLowU);
    case kLowU: return when(byte == 'u', kLow);
    case kLow: return when(digit == 13, kLowD);
    default: return when(digit >= 12, kCode2);
  }
}

}  // namespace

TextPhase text_step(TextPhase phase, uint8_t byte, bool general) {
  if (phase == kPlain) return plain_step(byte);
  if (phase == kEscape) return escape_step(byte, general);
  if (phase <= kControl7) return control_step(phase, byte);
  if (phase <= kAfterF4) return tail_step(phase, byte);
  return phase < kTextEnd ? code_step(phase, byte) : kNoText;
}

void PartialCode::add(TextPhase from, TextPhase to, uint8_t byte) {
  const auto digit = static_cast<uint32_t>(hex_value(byte));
  if (from == kEscape) {
    constexpr std::string_view kLetters = "bfnrt\"\\", kCharacters = "\b\f\n\r\t\"\\";
    const size_t place = kLetters.find(static_cast<char>(byte));
    bits = place == std::string_view::npos ? 0 : static_cast<uint32_t>(kCharacters[place]);
  } else if (from != kPlain) {
    if (from >= kTail1) bits = bits << 6 | (byte & 0x3F);
    else bits = from == kControl || from == kControl1 ? 0 : bits << 4 | digit;
  } else {
    const bool three = to == kTail2 || to == kAfterE0 || to == kAfterED;
    bits = to == kPlain ? byte : to == kEscape ? 0 : byte & (to == kTail1 ? 0x1F : three ? 0x0F : 0x07);
  }
}

CodeRanges PartialCode::open(TextPhase at) const {
  constexpr uint32_t kLastControl = 0x1F;
  const auto tail = [&](int bytes) { return CodeRange{bits << 6 * bytes, ((bits + 1) << 6 * bytes) - 1}; };
  switch (at) {
    case kEscape: return {{0, kLastControl}, {'"', '"'}, {'\\', '\\'}, {kRubout, kRubout}};
    case kControl:
    case kControl1:
    case kControl2: return {{0, kLastControl}, {kRubout, kRubout}};
    case kControlAny: return {{bits << 4, bits << 4 | 15}};
    case kControl7: return {{kRubout, kRubout}};
    case kTail1: return {tail(1)};
    case kAfterE0: return {{0x800, 0xFFF}};
    case kAfterED: return {{0xD000, 0xD7FF}};
    case kTail2: return {tail(2)};
    case kAfterF0: return {{0x10000, 0x3FFFF}};
    case kAfterF4: return {{0x100000, 0x10FFFF}};
    default: return {tail(3)};
  }
}

NumberPhase number_begin(uint8_t byte) {
  if (byte == '-') return kMinus;
  return byte == '0' ? kZero : is_digit(byte) ? kWhole : kNoNumber;
}

NumberPhase number_step(NumberPhase phase, uint8_t byte) {
  const bool digit = is_digit(byte), power = byte == 'e' || byte == 'E';
  switch (phase) {
    case kMinus: return byte == '0' ? kZero : digit ? kWhole : kNoNumber;
    case kWhole:
      if (digit) return kWhole;
      [[fallthrough]];
    case kZero: return byte == '.' ? kPoint : power ? kExponent : kNoNumber;
    case kPoint: return digit ? kFraction : kNoNumber;
    case kFraction: return digit ? kFraction : power ? kExponent : kNoNumber;
    case kExponent:
      if (byte == '+' || byte == '-') return kSign;
      [[fallthrough]];
    case kSign:
    case kPower: return digit ? kPower : kNoNumber;
    default: return kNoNumber;
  }
}

bool may_begin(uint64_t low, uint64_t high, uint64_t least, uint64_t most) {
  for (;;) {
    if (low <= most && high >= least) return true;
    if (low == 0 || low > most / 10) return false;
    low *= 10;
    high = high > (UINT64_MAX - 9) / 10 ? UINT64_MAX : 10 * high + 9;
  }
}

uint8_t short_escape(uint8_t character) {
  switch (character) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
  }
}

}  // namespace edgedec::engine
