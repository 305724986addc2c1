#include "core/grammar/places.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

// White space ahead of what comes next, above the bits of `at`: none yet, a space, or a new line with its indentation.
constexpr int kGapShift = 56;
constexpr int64_t kGapOne = int64_t{1} << kGapShift, kSpace = 1, kNewLine = 2, kWidest = kNewLine + 40;
int64_t gap_of(int64_t at) { return at >> kGapShift; }
int64_t without_gap(int64_t at) { return at & (kGapOne - 1); }

enum ArrayPhase : uint32_t { kFirstItem, kNextItem, kBehindItem };
// `at` is the number of a field, or of all fields for other keys; of kInKey with the bytes of the key above it, of
// kInOtherKey the place in the string, and above it that in the tree of keys.
enum ObjectPhase : uint32_t { kFirstKey, kNextKey, kInKey, kInOtherKey, kColon, kBeforeValue, kBehindValue };
constexpr int kKeyShift = 24, kNodeShift = 8;

enum IntegerPhase : uint32_t { kNegative, kPositive, kSignOnly };
// Phases of a decimal: behind the sign, behind whole digits (`at`), the point, and digits behind it (`at`: how many matter, and
// whether they are those of the bounds). Below zero the phase is one more.
enum DecimalPhase : uint32_t { kBehindSign = 0, kWholeDigits = 2, kBehindPoint = 4, kFractionDigits = 6 };

uint32_t child_of(const std::vector<KeyNode>& keys, uint32_t at, uint8_t byte) {
  uint32_t child = keys[at].child;
  while (child && keys[child].byte != byte) child = keys[child].next;
  return child;
}

uint64_t hash_of(const Place& place) {
  uint64_t hash = mixed(0, uint64_t{place.rule} << 32 | place.stack);
  hash = mixed(hash, place.phase);
  return mixed(hash, static_cast<uint64_t>(place.at));
}

struct WholeRange {
  uint64_t least, most;
};

// The magnitudes of the integers of one sign; `least` above `most` where there are none.
WholeRange magnitudes(const Rule& rule, bool negative) {
  if (negative) {
    if (rule.least >= 0) return {1, 0};
    return {rule.most < 0 ? 0 - static_cast<uint64_t>(rule.most) : 0, 0 - static_cast<uint64_t>(rule.least)};
  }
  if (rule.most < 0) return {1, 0};
  return {static_cast<uint64_t>(std::max<int64_t>(rule.least, 0)), static_cast<uint64_t>(rule.most)};
}

}  // namespace

void Places::clear() {
  frames_.assign(1, {});
  index_.clear();
}

uint32_t Places::push(const Place& back) {
  const uint64_t hash = hash_of(back);
  const uint32_t known = index_.find(hash, [&](uint32_t at) { return frames_[at].back == back; });
  if (known != HashIndex::kNone) return known;
  const auto at = static_cast<uint32_t>(frames_.size());
  frames_.push_back({back, frames_[back.stack].depth + 1});
  index_.add(hash, at);
  return at;
}

void Places::keep(std::vector<Place>* places) {
  std::vector<Frame> old = std::move(frames_);
  std::vector<uint32_t> moved(old.size(), 0);
  clear();
  for (Place& place : *places) {
    std::vector<uint32_t> chain;  // from the top down to a stack that was moved already
    for (uint32_t at = place.stack; at && !moved[at]; at = old[at].back.stack) chain.push_back(at);
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      Place back = old[*at].back;
      back.stack = moved[back.stack];
      moved[*at] = push(back);
    }
    place.stack = moved[place.stack];
  }
}

void Places::leave(uint32_t stack) { put(stack ? frames_[stack].back : Place()); }

void Places::begin(uint8_t byte, std::vector<Place>* found) {
  found_ = found;
  enter(rules_.root, 0, byte);
}

void Places::step(const Place& from, uint8_t byte, std::vector<Place>* found) {
  found_ = found;
  if (from.rule == kNoRule) return;
  switch (rules_[from.rule].kind) {
    case RuleKind::kLiteral: return literal(from, byte);
    case RuleKind::kQuoted: return quoted(from, byte);
    case RuleKind::kString: return string(from, byte);
    case RuleKind::kPattern: return pattern(from, byte);
    case RuleKind::kInteger: return integer(from, byte);
    case RuleKind::kNumber: return number(from, number_step(static_cast<NumberPhase>(from.phase), byte));
    case RuleKind::kDecimal: return decimal(from, byte);
    case RuleKind::kArray: return array(from, byte);
    case RuleKind::kObject: return object(from, byte);
    default: return;
  }
}

// Begins a text of a rule.
void Places::enter(RuleId id, uint32_t stack, uint8_t byte) {
  if (rules_[id].kind != RuleKind::kChoice) return enter_one(id, stack, byte);
  for (RuleId part : rules_[id].parts)
    if (frames_[stack].depth + rules_[part].height <= kMostNesting) enter_one(part, stack, byte);
}

void Places::enter_one(RuleId id, uint32_t stack, uint8_t byte) {
  const Rule& rule = rules_[id];
  switch (rule.kind) {
    case RuleKind::kLiteral: return literal({id, stack, 0, 0}, byte);
    case RuleKind::kQuoted:
    case RuleKind::kString:
    case RuleKind::kPattern:
      if (byte == '"') put({id, stack, kPlain, 0});
      return;
    case RuleKind::kInteger:
      if (byte == '-' && magnitudes(rule, true).least <= magnitudes(rule, true).most) return put({id, stack, kSignOnly, 0});
      if (byte >= '0' && byte <= '9') digit({id, stack, kPositive, 0}, byte - uint64_t{'0'});
      return;
    case RuleKind::kNumber: return number({id, stack, 0, 0}, number_begin(byte));
    case RuleKind::kDecimal:
      if (byte == '-' && !rule.signs[1].none()) return put({id, stack, kBehindSign + 1, 0});
      if (!rule.signs[0].none()) decimal({id, stack, kBehindSign, 0}, byte);
      return;
    case RuleKind::kArray:
      if (byte == '[') put({id, stack, kFirstItem, 0});
      return;
    case RuleKind::kObject:
      if (byte == '{') put({id, stack, kFirstKey, 0});
      return;
    default: return;
  }
}

void Places::literal(const Place& from, uint8_t byte) {
  const std::string& text = rules_[from.rule].text;
  const auto at = static_cast<size_t>(from.at);
  if (static_cast<uint8_t>(text[at]) != byte) return;
  if (at + 1 == text.size()) leave(from.stack);
  else put({from.rule, from.stack, 0, from.at + 1});
}

// The phases are kPlain, kEscape, and then the digits of a code.
void Places::quoted(const Place& from, uint8_t byte) {
  const std::string& text = rules_[from.rule].text;
  const auto at = static_cast<size_t>(from.at);
  const auto go = [&](uint32_t phase, int64_t index) { put({from.rule, from.stack, phase, index}); };
  if (at == text.size()) {
    if (byte == '"') leave(from.stack);
    return;
  }
  const auto one = static_cast<uint8_t>(text[at]);
  const bool coded = one < 0x20 || one == 0x7F, escaped = coded || one == '"' || one == '\\';
  if (from.phase == kPlain) {
    if (byte == (escaped ? '\\' : one)) go(escaped ? kEscape : kPlain, from.at + !escaped);
  } else if (from.phase == kEscape) {
    if (coded && byte == 'u') go(kEscape + 1, from.at);
    else if (byte && short_escape(one) == byte) go(kPlain, from.at + 1);
  } else {
    const uint32_t place = from.phase - kEscape - 1;  // of four digits
    const int wanted = place < 2 ? 0 : place == 2 ? one >> 4 : one & 15;
    if (hex_value(byte) == wanted) go(place == 3 ? uint32_t{kPlain} : from.phase + 1, from.at + (place == 3));
  }
}

// `at`: the characters so far, as far as they matter.
void Places::string(const Place& from, uint8_t byte) {
  const Rule& rule = rules_[from.rule];
  const TextPhase phase = text_step(static_cast<TextPhase>(from.phase), byte, false);
  if (phase == kNoText) return;
  if (phase == kTextEnd) {
    if (from.at >= rule.least) leave(from.stack);
    return;
  }
  if (from.phase == kPlain && from.at >= rule.most) return;
  const int64_t last = rule.most == INT64_MAX ? rule.least : rule.most;
  put({from.rule, from.stack, phase, std::min(from.at + (phase == kPlain), last)});
}

// `at`: the position in the pattern, and above it the bits of a character so far.
void Places::pattern(const Place& from, uint8_t byte) {
  constexpr int kCodeShift = 16;
  const Pattern& pattern = rules_[from.rule].patterns[0];
  const auto at = static_cast<uint32_t>(from.at & ((1 << kCodeShift) - 1));
  const TextPhase phase = text_step(static_cast<TextPhase>(from.phase), byte, false);
  if (phase == kNoText || (phase == kTextEnd && !pattern.ends(at))) return;
  if (phase == kTextEnd) return leave(from.stack);
  PartialCode code = {static_cast<uint32_t>(from.at >> kCodeShift)};
  code.add(static_cast<TextPhase>(from.phase), phase, byte);
  if (phase == kPlain) {
    for (uint32_t next : pattern.follow(at))
      if (pattern.takes(next, code.bits)) put({from.rule, from.stack, kPlain, next});
    return;
  }
  const auto may = [&](const CodeRange& range) { return pattern.may_follow(at, range.low, range.high); };
  const CodeRanges open = code.open(phase);
  if (std::any_of(open.begin(), open.end(), may)) put({from.rule, from.stack, phase, int64_t{code.bits} << kCodeShift | at});
}

// `at`: the magnitude so far.
void Places::integer(const Place& from, uint8_t byte) {
  if (byte < '0' || byte > '9') return;
  Place next = from;
  next.phase = from.phase == kPositive ? kPositive : kNegative;
  const auto value = static_cast<uint64_t>(from.at);
  digit(next, 10 * value + (byte - uint64_t{'0'}));
}

void Places::digit(Place at, uint64_t value) {
  const auto [least, most] = magnitudes(rules_[at.rule], at.phase == kNegative);
  if (least > most) return;
  at.at = static_cast<int64_t>(value);
  if (value && value <= most / 10 && may_begin(10 * value, 10 * value + 9, least, most)) put(at);
  if (value >= least && value <= most) leave(at.stack);
}

void Places::number(const Place& at, NumberPhase phase) {
  if (phase == kNoNumber) return;
  put({at.rule, at.stack, phase, 0});
  if (is_number(phase)) leave(at.stack);
}

void Places::decimal(const Place& from, uint8_t byte) {
  const uint32_t sign = from.phase & 1, phase = from.phase & ~1u, value = byte - uint32_t{'0'};
  const Magnitudes& magnitudes = rules_[from.rule].signs[sign];
  const auto whole = static_cast<uint64_t>(from.at);
  const auto put_fraction = [&](uint32_t next, const Magnitudes::Fraction& place) {
    const int64_t at = int64_t{place.digits} << 2 | int64_t{place.at_least} << 1 | int64_t{place.at_most};
    put({from.rule, from.stack, next + sign, at});
  };
  if (phase == kWholeDigits && byte == '.') {
    if (magnitudes.takes_point(whole)) put_fraction(kBehindPoint, magnitudes.point(whole));
    return;
  }
  if (value > 9) return;
  if (phase == kBehindSign) return whole_digits({from.rule, from.stack, kWholeDigits + sign, 0}, value);
  if (phase == kWholeDigits) {
    const bool huge = whole > (UINT64_MAX - 9) / 10;  // of a range without end
    if (magnitudes.begins(whole)) whole_digits(from, huge ? UINT64_MAX : 10 * whole + value);
    return;
  }
  Magnitudes::Fraction place = {static_cast<uint32_t>(from.at >> 2), (from.at & 2) != 0, (from.at & 1) != 0};
  if (!magnitudes.digit(value, &place)) return;
  put_fraction(kFractionDigits, place);
  if (magnitudes.ends(place)) leave(from.stack);
}

void Places::whole_digits(Place at, uint64_t whole) {
  const Magnitudes& magnitudes = rules_[at.rule].signs[at.phase & 1];
  whole = magnitudes.kept(whole);
  at.at = static_cast<int64_t>(whole);
  if (magnitudes.begins(whole) || magnitudes.takes_point(whole)) put(at);
  if (magnitudes.ends(whole)) leave(at.stack);
}

// Whether `byte` is white space that may stand here.
bool Places::gap(const Place& from, uint8_t byte) {
  const int64_t gap = gap_of(from.at);
  int64_t next = 0;
  if (gap == 0) next = byte == ' ' ? kSpace : byte == '\n' ? kNewLine : 0;
  else if (gap >= kNewLine && gap < kWidest && (byte == ' ' || byte == '\t')) next = gap + 1;
  if (next) put({from.rule, from.stack, from.phase, without_gap(from.at) + next * kGapOne});
  return next != 0;
}

// Begins a nested value, behind which `back` follows.
void Places::value(const Place& from, RuleId rule, const Place& back, uint8_t byte) {
  if (fits(from.stack, rule)) enter(rule, push(back), byte);
}

RuleId Places::item(const Rule& rule, int64_t count) const {
  if (count >= rule.most) return kNoRule;
  return count < static_cast<int64_t>(rule.parts.size()) ? rule.parts[static_cast<size_t>(count)] : rule.rest;
}

// `at`: the items so far, as far as they matter.
void Places::array(const Place& from, uint8_t byte) {
  const Rule& rule = rules_[from.rule];
  if (gap(from, byte)) return;
  const int64_t count = without_gap(from.at);
  if (byte == ']' && from.phase != kNextItem && count >= rule.least) return leave(from.stack);
  const RuleId next = item(rule, count);
  if (from.phase == kBehindItem) {
    if (byte == ',' && fits(from.stack, next)) put({from.rule, from.stack, kNextItem, count});
    return;
  }
  const int64_t last = rule.most == INT64_MAX ? std::max(rule.least, static_cast<int64_t>(rule.parts.size())) : rule.most;
  value(from, next, {from.rule, from.stack, kBehindItem, std::min(count + 1, last)}, byte);
}

// Puts the keys that may come next, or tells whether there is one; `byte`: what they begin with, 0 to ask.
bool Places::keys(const Place& from, uint8_t byte) {
  const Rule& rule = rules_[from.rule];
  bool any = false;
  size_t at = static_cast<size_t>(without_gap(from.at));
  for (; at < rule.fields.size(); ++at) {
    if (fits(from.stack, rule.fields[at].value)) {
      any = true;
      if (byte) put({from.rule, from.stack, kInKey, int64_t{1} << kKeyShift | static_cast<int64_t>(at)});
    }
    if (rule.fields[at].required) return any;
  }
  if (!fits(from.stack, rule.rest)) return any;
  const int64_t node = child_of(rule.keys, 0, '"');
  if (byte) put({from.rule, from.stack, kInOtherKey, node << kNodeShift | kPlain});
  return true;
}

void Places::other_key(const Place& from, uint8_t byte) {
  const Rule& rule = rules_[from.rule];
  const TextPhase phase = text_step(static_cast<TextPhase>(from.at & 0xFF), byte, rule.keys.size() > 1);
  if (phase == kNoText) return;
  const auto node = static_cast<uint32_t>(from.at >> kNodeShift);
  const uint32_t next = node ? child_of(rule.keys, node, byte) : 0;
  if (phase != kTextEnd) return put({from.rule, from.stack, kInOtherKey, int64_t{next} << kNodeShift | phase});
  if (!next) put({from.rule, from.stack, kColon, static_cast<int64_t>(rule.fields.size())});
}

void Places::object(const Place& from, uint8_t byte) {
  const Rule& rule = rules_[from.rule];
  const auto go = [&](uint32_t phase, int64_t at) { put({from.rule, from.stack, phase, at}); };
  if (from.phase == kInOtherKey) return other_key(from, byte);
  if (from.phase == kInKey) {
    const int64_t field = from.at & ((1 << kKeyShift) - 1), done = from.at >> kKeyShift;
    const std::string& key = rule.fields[static_cast<size_t>(field)].key;
    if (static_cast<uint8_t>(key[static_cast<size_t>(done)]) != byte) return;
    if (done + 1 == static_cast<int64_t>(key.size())) return go(kColon, field);
    return go(kInKey, from.at + (int64_t{1} << kKeyShift));
  }
  if (gap(from, byte)) return;
  const int64_t at = without_gap(from.at);
  const auto field = static_cast<size_t>(at);
  if (from.phase == kColon) {
    if (byte == ':') go(kBeforeValue, at);
    return;
  }
  if (from.phase == kBeforeValue) {
    const bool other = field == rule.fields.size();
    return value(from, other ? rule.rest : rule.fields[field].value, {from.rule, from.stack, kBehindValue, at + !other}, byte);
  }
  const auto required = [](const Field& one) { return one.required; };
  if (byte == '}' && from.phase != kNextKey && std::none_of(rule.fields.begin() + at, rule.fields.end(), required))
    return leave(from.stack);
  if (from.phase == kBehindValue) {
    if (byte == ',' && keys(from, 0)) go(kNextKey, at);
  } else if (byte == '"') {
    keys(from, byte);
  }
}

}  // namespace edgedec::engine
