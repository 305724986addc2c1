#include "core/grammar/pattern.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/utf8.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostPositions = 1024, kMostEdges = 1 << 16;
constexpr int kMostGroups = 32, kMostAtoms = 1 << 14;
constexpr uint32_t kLastChar = 0x10FFFF;
constexpr int kMostRepeats = 1000;

const CharClass kAnyChar = {{0, kLastChar}}, kDigits = {{'0', '9'}}, kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharClass kWhite = {{9, 13}, {32, 32}, {0x85, 0x85}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A},
                          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
const CharClass kAllButNewLine = {{0, 9}, {11, kLastChar}};

CharClass negated(CharClass all) {
  all.push_back({0xD800, 0xDFFF});
  std::sort(all.begin(), all.end(), [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
  CharClass found;
  uint32_t next = 0;  // surrogates are no characters
  for (const CodeRange& range : all) {
    if (range.low > next) found.push_back({next, range.low - 1});
    next = std::max(next, range.high + 1);
  }
  if (next <= kLastChar) found.push_back({next, kLastChar});
  return found;
}

// A part of a pattern: positions that it may begin and end with, and whether it may be empty.
struct Part {
  std::vector<uint32_t> first, last;
  bool empty = true;
};

void join(std::vector<uint32_t>* all, const std::vector<uint32_t>& more) {
  all->insert(all->end(), more.begin(), more.end());
  std::sort(all->begin(), all->end());
  all->erase(std::unique(all->begin(), all->end()), all->end());
}

}  // namespace

// Reads a pattern from left to right. A repeated part is read again for each time.
class PatternParser {
 public:
  PatternParser(std::string_view text, Pattern* pattern) : text_(text), made_(*pattern) {}

  bool run() {
    made_.classes_.assign(1, {});
    made_.follow_.assign(1, {});
    const Part whole = alternatives(true);
    if (at_ < text_.size()) fail(")");
    if (!why_.empty()) return false;
    made_.follow_[Pattern::kStart] = whole.first;
    made_.ends_.assign(made_.classes_.size(), 0);
    for (uint32_t last : whole.last) made_.ends_[last] = 1;
    made_.ends_[Pattern::kStart] = whole.empty;
    return true;
  }
  const std::string& why() const { return why_; }

 private:
  bool more() const { return why_.empty() && at_ < text_.size(); }
  bool next_is(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
  bool took(char one) {
    if (at_ >= text_.size() || text_[at_] != one) return false;
    ++at_;
    return true;
  }
  void fail(std::string_view what) {
    if (why_.empty()) why_ = what;
  }

  uint32_t character() { return next_utf8(text_, &at_); }

  Part position(CharClass all) {
    const auto at = static_cast<uint32_t>(made_.classes_.size());
    if (made_.classes_.size() > kMostPositions) fail("too many characters");
    if (!why_.empty()) return {};
    made_.classes_.push_back(std::move(all));
    made_.follow_.emplace_back();
    return {{at}, {at}, false};
  }

  void link(const Part& a, const Part& b) {
    for (uint32_t last : a.last) {
      const size_t before = made_.follow_[last].size();
      join(&made_.follow_[last], b.first);
      edges_ += made_.follow_[last].size() - before;
    }
    if (edges_ > kMostEdges) fail("too many characters");
  }
  Part sequence(Part a, const Part& b) {
    link(a, b);
    if (a.empty) join(&a.first, b.first);
    if (b.empty) join(&a.last, b.last);
    else a.last = b.last;
    a.empty = a.empty && b.empty;
    return a;
  }
  Part any() {
    Part found = position(kAnyChar);
    link(found, found);
    found.empty = true;
    return found;
  }

  Part alternatives(bool outermost) {
    Part found = branch(outermost);
    while (more() && took('|')) {
      const Part other = branch(outermost);
      join(&found.first, other.first);
      join(&found.last, other.last);
      found.empty |= other.empty;
    }
    return found;
  }

  // A branch; the outermost ones are looked for anywhere in the text, unless they are anchored.
  Part branch(bool outermost) {
    const bool begins = outermost && took('^');
    Part found = outermost && !begins ? any() : Part();
    bool ends = false;
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      if (ends) fail("$ inside");
      if (outermost && took('$')) ends = true;
      else found = sequence(std::move(found), repeated());
    }
    return outermost && !ends ? sequence(std::move(found), any()) : found;
  }

  Part repeated() {
    const size_t begin = at_;
    Part one = atom();
    int least = 1, most = 1;
    if (!quantifier(&least, &most)) return one;
    const size_t behind = at_;
    Part found;
    const int copies = most < 0 ? std::max(least, 1) : most;
    for (int copy = 0; copy < copies && why_.empty(); ++copy) {
      if (copy) {
        at_ = begin;
        one = atom();
      }
      if (most < 0 && copy + 1 == copies) link(one, one);
      if (copy >= least) one.empty = true;
      found = copy ? sequence(std::move(found), one) : one;
    }
    at_ = behind;
    return found;
  }

  // Reads how often an atom comes; `*most` is -1 for as often as wanted. False: nothing is said.
  bool quantifier(int* least, int* most) {
    if (took('*')) *least = 0, *most = -1;
    else if (took('+')) *most = -1;
    else if (took('?')) *least = 0;
    else if (!took('{')) return false;
    else counts(least, most);
    took('?');  // as few as possible: the same texts
    if (more() && (text_[at_] == '+' || text_[at_] == '*' || text_[at_] == '{')) fail("a repetition of a repetition");
    return true;
  }
  void counts(int* least, int* most) {
    *least = *most = number();
    if (took(',')) *most = more() && text_[at_] == '}' ? -1 : number();
    if (!took('}') || *least < 0 || (*most >= 0 && *most < *least)) fail("a wrong repetition");
  }
  int number() {
    int found = -1;
    for (; more() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      found = 10 * std::max(found, 0) + (text_[at_] - '0');
      if (found > kMostRepeats) fail("more than 1000 repetitions");
    }
    if (found < 0) fail("a wrong repetition");
    return found;
  }

  Part atom() {
    if (++atoms_ > kMostAtoms) fail("too many repetitions");
    if (took('(')) return group();
    if (took('[')) return position(char_class());
    if (took('.')) return position(kAllButNewLine);
    if (took('\\')) return position(escape());
    for (char one : {'*', '+', '?', '{', '}', '^', '$', ']'})
      if (at_ < text_.size() && text_[at_] == one) fail(std::string("an unexpected ") + one);
    const uint32_t code = why_.empty() ? character() : 0;
    return position({{code, code}});
  }

  Part group() {
    if (++depth_ > kMostGroups) fail("too many nested groups");
    if (took('?') && !took(':')) fail("(?");
    Part found = why_.empty() ? alternatives(false) : Part();
    if (!took(')')) fail("a group without end");
    --depth_;
    return found;
  }

  // Reads the escape behind a backslash.
  CharClass escape() {
    if (!more()) {
      fail("a backslash at the end");
      return {};
    }
    const char one = text_[at_++];
    switch (one) {
      case 'd': return kDigits;
      case 'D': return negated(kDigits);
      case 'w': return kWord;
      case 'W': return negated(kWord);
      case 's': return kWhite;
      case 'S': return negated(kWhite);
      case 't': return single('\t');
      case 'n': return single('\n');
      case 'r': return single('\r');
      case 'f': return single('\f');
      case 'v': return single('\v');
      case 'x': return single(hex(2));
      case 'u': return single(hex(4));
      default: break;
    }
    const char lower = static_cast<char>(one | 0x20);
    if ((one >= '0' && one <= '9') || (lower >= 'a' && lower <= 'z')) fail(std::string("\\") + one);
    if (one & 0x80) fail("a backslash before a letter");
    return single(static_cast<unsigned char>(one));
  }
  static CharClass single(uint32_t code) { return {{code, code}}; }
  uint32_t hex(int digits) {
    uint32_t code = 0;
    for (int digit = 0; digit < digits; ++digit) {
      const int value = more() ? hex_value(static_cast<uint8_t>(text_[at_++])) : -1;
      if (value < 0) fail("a wrong code of a character");
      code = 16 * code + static_cast<uint32_t>(std::max(value, 0));
    }
    if (code >= 0xD800 && code < 0xE000) fail("half a character");
    return code;
  }

  CharClass char_class() {
    const bool negative = took('^');
    CharClass found;
    bool first = true;
    for (; more() && (first || text_[at_] != ']'); first = false) {
      const bool odd = text_[at_] == '[' || next_is("&&") || next_is("--") || next_is("~~") || (first && text_[at_] == ']');
      if (odd) fail("such a set of characters");
      CharClass one = took('\\') ? escape() : single(character());
      if (more() && text_[at_] == '-' && !next_is("-]") && !next_is("--")) {
        ++at_;
        const CharClass end = took('\\') ? escape() : more() ? single(character()) : CharClass();
        const auto is_char = [](const CharClass& all) { return all.size() == 1 && all[0].low == all[0].high; };
        if (!is_char(one) || !is_char(end) || end[0].low < one[0].low) {
          fail("a wrong range");
          break;
        }
        one[0].high = end[0].low;
      }
      found.insert(found.end(), one.begin(), one.end());
    }
    if (!took(']')) fail("a set without end");
    return negative ? negated(std::move(found)) : found;
  }

  const std::string_view text_;
  Pattern& made_;
  size_t at_ = 0, edges_ = 0;
  int depth_ = 0, atoms_ = 0;
  std::string why_;
};

Status Pattern::parse(std::string_view text, Pattern* pattern) {
  PatternParser parser(text, pattern);
  return parser.run() ? Status() : Status(Code::kUsage, parser.why());
}

bool Pattern::meets(uint32_t at, uint32_t low, uint32_t high) const {
  const CharClass& all = classes_[at];
  return std::any_of(all.begin(), all.end(), [&](const CodeRange& range) { return range.low <= high && range.high >= low; });
}

bool Pattern::may_follow(uint32_t from, uint32_t low, uint32_t high) const {
  return std::any_of(follow_[from].begin(), follow_[from].end(), [&](uint32_t at) { return meets(at, low, high); });
}

bool Pattern::trim() {
  std::vector<char> sound(ends_.begin(), ends_.end());
  for (bool again = true; again;) {
    again = false;
    for (uint32_t at = 0; at < follow_.size(); ++at) {
      if (sound[at] || (at != kStart && classes_[at].empty())) continue;
      const auto reaches = [&](uint32_t to) { return sound[to] && !classes_[to].empty(); };
      sound[at] = std::any_of(follow_[at].begin(), follow_[at].end(), reaches);
      again |= sound[at] != 0;
    }
  }
  const auto gone = [&](uint32_t to) { return !sound[to] || classes_[to].empty(); };
  for (std::vector<uint32_t>& all : follow_) all.erase(std::remove_if(all.begin(), all.end(), gone), all.end());
  return sound[kStart] != 0;
}

}  // namespace edgedec::engine
