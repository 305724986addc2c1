#include "text/words.h"

namespace edgedec::text {
namespace {

constexpr uint32_t kMostInstructions = 4096;

// Where the character before `at` begins.
size_t before(std::string_view text, size_t at, size_t least) {
  do {
    --at;
  } while (at > least && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

}  // namespace

Classes::Classes(const Table& table) : table_(table) {
  for (uint32_t code = 0; code < 128; ++code) ascii_[code] = look_up(code);
}

uint32_t Classes::at(const char* text, size_t length, size_t* bytes) {
  const auto lead = static_cast<uint8_t>(text[0]);
  *bytes = 1;
  if (lead < 128) return ascii_[lead];
  uint32_t code;
  *bytes = character(text, length, &code);
  Known& known = known_[code % kKnown];
  if (known.code != code) known = {code, look_up(code)};
  return known.mask;
}

uint32_t Classes::look_up(uint32_t code) const {
  const uint32_t* masks = table_.words(kMasks);
  uint64_t low = 0, high = table_.count(kMasks);  // the last entry that does not begin behind the character
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (masks[2 * middle] <= code) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low && code != kNone ? masks[2 * low - 1] : 0;
}

bool Programs::sound(const Instruction* code, size_t instructions) {
  if (!instructions || instructions > kMostInstructions) return false;
  for (size_t place = 0; place < instructions; ++place) {
    const Instruction& one = code[place];
    const size_t left = instructions - place;
    const auto forward = [&](uint32_t by) { return by && by < left; };
    const bool fits = one.op == kMatch                                           ? true
                      : one.op == kRun || one.op == kTake || one.op == kAhead ? one.a < 32 && left > 1
                      : one.op == kJump                                          ? forward(one.a)
                                                        : one.op == kEither && forward(one.a) && forward(one.b);
    if (!fits) return false;
  }
  return true;
}

// Whether there is a character of a class.
bool Programs::holds(std::string_view text, size_t at, uint32_t number) {
  size_t bytes;
  return at < text.size() && (classes_.at(text.data() + at, text.size() - at, &bytes) >> number & 1);
}

// Moves *at behind a run, and *least behind its fewest characters; false where there are fewer.
bool Programs::run(std::string_view text, const Instruction& code, size_t* at, size_t* least) {
  size_t end = *at, bytes;
  uint32_t count = 0;
  *least = end;
  while (count < code.c && end < text.size() && classes_.at(text.data() + end, text.size() - end, &bytes) >> code.a & 1) {
    end += bytes;
    if (++count == code.b) *least = end;
  }
  *at = end;
  return count >= code.b;
}

int64_t Programs::match(const Instruction* code, std::string_view text, size_t start, size_t* end) {
  choices_.clear();
  size_t at = start, least = 0;
  for (uint32_t place = 0;;) {
    const Instruction& one = code[place];
    const size_t from = at;
    bool goes_on = true, room = true;
    uint32_t by = 1;
    switch (one.op) {
      case kRun:
        goes_on = run(text, one, &at, &least);
        if (goes_on && at > least) room = choices_.push_back({place + 1, before(text, at, least), least});
        break;
      case kTake:
        goes_on = run(text, one, &at, &least);
        break;
      case kEither:
        room = choices_.push_back({place + one.b, at, at});
        by = one.a;
        break;
      case kJump:
        by = one.a;
        break;
      case kAhead:
        goes_on = holds(text, at, one.a) == (one.b == 1);
        break;
      default:
        *end = at;
        return 0;
    }
    if (!room) return kNoMemory;
    const uint64_t steps = 1 + (at - from);
    if (steps_ < steps) return kDamaged;
    steps_ -= steps;
    place += by;
    if (goes_on) continue;
    if (choices_.empty()) {
      *end = start;
      return 0;
    }
    Choice& choice = choices_.back();
    place = choice.place;
    at = choice.at;
    if (at > choice.least) {
      choice.at = before(text, at, choice.least);
    } else {
      choices_.pop_back();
    }
  }
}

}  // namespace edgedec::text
