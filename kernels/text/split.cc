#include <algorithm>

#include "text/bpe.h"

namespace edgedec::text {
namespace {

struct Pattern {
  const char* text;
  uint32_t length, id;
};

// The white space of Unicode, which has one, two or three bytes; 0 where the text begins with none.
size_t space(const char* text, size_t length) {
  const auto byte = [&](size_t at) { return at < length ? static_cast<uint8_t>(text[at]) : 0; };
  const uint8_t a = byte(0), b = byte(1), c = byte(2);
  if (a == ' ' || (a >= '\t' && a <= '\r')) return 1;
  if (a == 0xC2) return b == 0x85 || b == 0xA0 ? 2 : 0;
  if (a == 0xE1) return b == 0x9A && c == 0x80 ? 3 : 0;
  if (a == 0xE3) return b == 0x80 && c == 0x80 ? 3 : 0;
  if (a != 0xE2) return 0;
  if (b == 0x80) return (c >= 0x80 && c <= 0x8A) || c == 0xA8 || c == 0xA9 || c == 0xAF ? 3 : 0;
  return b == 0x81 && c == 0x9F ? 3 : 0;
}

size_t spaces_behind(const char* text, size_t length) {
  size_t at = 0;
  while (size_t step = space(text + at, length - at)) at += step;
  return at;
}

// Where the white space begins that ends the text.
size_t spaces_before(const char* text, size_t length) {
  for (size_t end = length;;) {
    size_t begin = end;
    for (size_t step = 1; step <= 3 && step <= end; ++step) {
      if (space(text + end - step, step) == step) begin = end - step;
    }
    if (begin == end) return end;
    end = begin;
  }
}

class Patterns {
 public:
  Patterns(const Table& table, bool rewritten) : table_(table), first_(table.words(kFirst) + (rewritten ? 257 : 0)) {}

  // The longest pattern that the text begins with; false where the table is damaged. A length of 0: none.
  bool longest(const char* text, size_t length, Pattern* best) const {
    best->length = 0;
    const auto lead = static_cast<uint8_t>(text[0]);
    uint64_t low = first_[lead], high = first_[lead + 1];
    if (low > high || high > table_.count(kPatterns)) return false;
    for (size_t depth = 1; low < high; ++depth) {
      // Here the patterns from low to high share `depth` bytes with the text; one that ends there is the first.
      Pattern pattern;
      if (!at(low, &pattern) || pattern.length < depth) return false;
      if (pattern.length == depth) {
        *best = pattern;
        ++low;
      }
      if (depth == length) break;
      const int wanted = static_cast<uint8_t>(text[depth]);
      if (!narrow(wanted, depth, &low, high)) return false;
      uint64_t end = low;
      if (!narrow(wanted + 1, depth, &end, high)) return false;
      high = end;
    }
    return true;
  }

 private:
  bool at(uint64_t index, Pattern* pattern) const {
    const uint32_t* entry = table_.words(kPatterns) + 3 * index;
    if (entry[0] > table_.count(kPatternText) || entry[1] > table_.count(kPatternText) - entry[0]) return false;
    *pattern = {table_.bytes(kPatternText) + entry[0], entry[1], entry[2]};
    return table_.known(pattern->id);
  }

  // Moves *low to the first pattern from *low to `high` whose byte at `depth` is at least `wanted`.
  bool narrow(int wanted, size_t depth, uint64_t* low, uint64_t high) const {
    while (*low < high) {
      const uint64_t middle = (*low + high) / 2;
      Pattern pattern;
      if (!at(middle, &pattern) || pattern.length <= depth) return false;
      if (static_cast<uint8_t>(pattern.text[depth]) < wanted) {
        *low = middle + 1;
      } else {
        high = middle;
      }
    }
    return true;
  }

  const Table& table_;
  const uint32_t* first_;
};

}  // namespace

int64_t split(const Table& table, bool rewritten, Specials specials, std::string_view given, Array<Stretch>* out) {
  const Patterns patterns(table, rewritten);
  const char* text = given.data();
  const size_t length = given.size();
  Literals literal = specials.literal;
  size_t done = 0;  // the text before this is written
  for (size_t at = 0; at < length;) {
    for (; literal.count && *literal.at < at; ++literal.at) --literal.count;
    const size_t most = literal.count ? std::min(*literal.at, length) - at : length - at;  // bytes of a control token
    Pattern found;
    if (!patterns.longest(text + at, length - at, &found)) return kDamaged;
    if (specials.found && found.length > most && table.kind(found.id) & kSpecial) {
      found.length = 0;
      if (most && !patterns.longest(text + at, most, &found)) return kDamaged;
    }
    if (!found.length) {
      ++at;
      continue;
    }
    size_t start = at, end = at + found.length;
    at = end;
    const uint8_t kind = table.kind(found.id);
    if (kind & kSpecial && !specials.found) continue;
    if (kind & kLeftStrip) start = std::max(spaces_before(text, start), done);
    if (kind & kRightStrip) end += spaces_behind(text + end, length - end);
    if (start > end) continue;  // the space before it went to another token, and so did it
    if (done < start && !out->push_back({done, start, kNone})) return kNoMemory;
    if (start < end && !out->push_back({start, end, found.id})) return kNoMemory;
    done = end;
  }
  return done == length || out->push_back({done, length, kNone}) ? kDone : kNoMemory;
}

}  // namespace edgedec::text
