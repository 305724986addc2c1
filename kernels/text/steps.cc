#include "text/steps.h"

#include <algorithm>

#include "text/compose.h"

namespace edgedec::text {
namespace {

constexpr uint64_t kStepsPerByte = 512;  // of programs; those of real tokenizers take some 30
constexpr size_t kMostGrowth = 64;       // a rewritten text has at most so many bytes for each byte

std::string_view view(const Array<char>& text) { return {text.begin(), text.size()}; }

bool put(std::string_view text, Array<char>* out) { return out->append(text.data(), text.size()); }

// Writes text with each occurrence of `one` replaced. Returns 0, kDamaged for too long a result, or kNoMemory.
int64_t replace(std::string_view text, std::string_view one, std::string_view other, size_t most, Array<char>* out) {
  out->clear();
  size_t done = 0;
  for (size_t at; (at = text.find(one, done)) != text.npos; done = at + one.size()) {
    if (!put(text.substr(done, at - done), out) || !put(other, out)) return kNoMemory;
    if (out->size() > most) return kDamaged;
  }
  return put(text.substr(done), out) ? kDone : kNoMemory;
}

}  // namespace

bool Encoder::read_text(const uint32_t* words, std::string_view* text) const {
  const uint64_t count = table_.count(kRuleText);
  if (words[0] > count || words[1] > count - words[0]) return false;
  *text = {table_.bytes(kRuleText) + words[0], words[1]};
  return true;
}

bool Encoder::open() {
  const uint32_t* rules = table_.words(kRules);
  const size_t count = table_.count(kRules);
  size_t number = 0;
  for (size_t at = 0; at < count; ++number) {
    if (number == kMostRules || !read_rule(rules, count, &at)) return false;
  }
  return true;
}

bool Encoder::read_rule(const uint32_t* rules, size_t count, size_t* at) {
  constexpr size_t kValues[kRuleCount] = {0, 4, 2, 3, 3, 0};
  const uint32_t rule = rules[(*at)++];
  if (rule >= kRuleCount || count - *at < kValues[rule]) return false;
  const uint32_t* values = rules + *at;
  *at += kValues[rule];
  Rewrite rewrite = {static_cast<Rule>(rule), {}, {}};
  switch (rule) {
    case kReplace:
      if (!read_text(values, &rewrite.one) || !read_text(values + 2, &rewrite.other) || rewrite.one.empty()) return false;
      break;
    case kPrepend:
      if (!read_text(values, &rewrite.one)) return false;
      break;
    case kSpaces:
      in_front_ = static_cast<When>(values[2]);
      return read_text(values, &space_) && !space_.empty() && values[2] <= kAtFirst;
    case kSplit: {
      const size_t instructions = values[2];
      if (values[0] > kWithNext || instructions > (count - *at) / 4) return false;
      *at += 4 * instructions;
      const auto* code = reinterpret_cast<const Instruction*>(values + 3);
      splits_[split_count_++] = {static_cast<Behaviour>(values[0]), values[1] != 0, code};
      return Programs::sound(code, instructions);
    }
    case kAlphabet:
      alphabet_ = true;
      return true;
    default:
      break;
  }
  rewrites_[rewrite_count_++] = rewrite;
  return true;
}

bool Encoder::composes() const {
  return std::any_of(rewrites_, rewrites_ + rewrite_count_, [](const Rewrite& one) { return one.rule == kCompose; });
}

int64_t Encoder::write(uint32_t id) {
  first_ = false;
  return ids_->push_back(id) ? kDone : kNoMemory;
}

int64_t Encoder::encode(std::string_view text, Specials specials, Array<uint32_t>* ids) {
  ids_ = ids;
  first_ = true;
  programs_.allow(4096 + kStepsPerByte * text.size());
  parts_.clear();
  int64_t failure = split(table_, false, specials, text, &parts_);
  const size_t* const end = specials.literal.at + specials.literal.count;
  for (size_t i = 0; i < parts_.size() && !failure; ++i) {
    const Stretch part = parts_[i];
    if (part.id != kNone) {
      failure = write(part.id);
      continue;
    }
    literals_.clear();
    const size_t* at = std::lower_bound(specials.literal.at, end, part.start);
    for (; at < end && *at < part.end; ++at) {
      if (!literals_.push_back(*at - part.start)) return kNoMemory;
    }
    const std::string_view of = text.substr(part.start, part.end - part.start);
    failure = encode_part(of, {specials.found, {literals_.begin(), literals_.size()}});
  }
  return failure;
}

int64_t Encoder::encode_part(std::string_view text, Specials specials) {
  const uint32_t* first = table_.words(kFirst) + 257;
  const bool looks = first[0] != first[256];  // there are tokens that are found after the normaliser
  size_t bytes = 0;
  if (looks && specials.found && specials.literal.count) {
    if (const int64_t failure = follow(text, specials.literal, &bytes)) return failure;
    specials.literal = {followed_.begin(), followed_.size()};
  }
  if (const int64_t failure = normalize(text)) return failure;
  if (!looks || normal_.size() == 0) return normal_.size() ? cut(view(normal_)) : 0;
  // Where the normal form is not that of its pieces it is not known which control tokens are literal: all are.
  if (specials.literal.count && normal_.size() != bytes) specials = {};
  return cut_normal(view(normal_), specials);
}

// Finds where literal bytes of a text are in its normal form, and how long that is: piece by piece.
int64_t Encoder::follow(std::string_view text, Literals literal, size_t* bytes) {
  followed_.clear();
  *bytes = 0;
  for (const Rewrite* one = rewrites_; one < rewrites_ + rewrite_count_; ++one) {
    if (one->rule == kPrepend) *bytes += one->one.size();
  }
  size_t done = 0;
  for (size_t i = 0; i <= literal.count; ++i) {
    const bool last = i == literal.count;
    if (!last && literal.at[i] < done) continue;
    const size_t end = last ? text.size() : literal.at[i] + Programs::step(text.substr(literal.at[i]));
    if (const int64_t failure = normalize(text.substr(done, end - done), false)) return failure;
    *bytes += normal_.size();
    if (!last && *bytes && !followed_.push_back(*bytes - 1)) return kNoMemory;
    done = end;
  }
  return 0;
}

// Leaves the normal form of a text in normal_; without `in_front` nothing is put in front of it.
int64_t Encoder::normalize(std::string_view text, bool in_front) {
  const size_t most = 4096 + kMostGrowth * text.size();
  normal_.clear();
  if (!put(text, &normal_)) return kNoMemory;
  for (const Rewrite* one = rewrites_; one < rewrites_ + rewrite_count_; ++one) {
    int64_t failure = 0;
    if (one->rule == kCompose) {
      failure = compose(table_, view(normal_), &spare_);
    } else if (one->rule == kReplace) {
      failure = replace(view(normal_), one->one, one->other, most, &spare_);
    } else {
      if (!in_front) continue;
      spare_.clear();
      if (!normal_.empty() && (!put(one->one, &spare_) || !put(view(normal_), &spare_))) failure = kNoMemory;
    }
    if (failure) return failure;
    if (spare_.size() > most) return kDamaged;
    normal_.swap(spare_);
  }
  return 0;
}

int64_t Encoder::cut_normal(std::string_view text, Specials specials) {
  normal_parts_.clear();
  int64_t failure = split(table_, true, specials, text, &normal_parts_);
  for (size_t i = 0; i < normal_parts_.size() && !failure; ++i) {
    const Stretch part = normal_parts_[i];
    failure = part.id != kNone ? write(part.id) : cut(text.substr(part.start, part.end - part.start));
  }
  return failure;
}

int64_t Encoder::cut(std::string_view text) {
  if (space_.empty()) return cut_by(0, text);
  const size_t most = 4096 + kMostGrowth * text.size();
  if (const int64_t failure = replace(text, " ", space_, most, &spaced_)) return failure;
  const bool wanted = in_front_ == kAlways || (in_front_ == kAtFirst && first_);
  if (wanted && view(spaced_).substr(0, space_.size()) != space_) {
    spare_.clear();
    if (!put(space_, &spare_) || !put(view(spaced_), &spare_)) return kNoMemory;
    spaced_.swap(spare_);
  }
  return cut_by(0, view(spaced_));
}

// The pieces that a split makes of matches and of what is between them.
class Encoder::Pieces {
 public:
  Pieces(Encoder& encoder, size_t number, std::string_view text)
      : encoder_(encoder), split_(encoder.splits_[number]), next_(number + 1), text_(text) {}

  // Adds the text up to `end`.
  int64_t add(size_t end, bool match) {
    const bool counts = match != split_.invert;
    const bool joins = split_.behaviour == kContiguous     ? counts == previous_
                       : split_.behaviour == kWithPrevious ? counts && !previous_
                       : split_.behaviour == kWithNext     ? !counts && previous_
                                                           : false;
    const int64_t failure = joins ? 0 : finish();
    if (split_.behaviour == kRemoved && counts) start_ = end;
    end_ = end;
    previous_ = counts;
    return failure;
  }

  // Cuts the piece that is complete by the next splits.
  int64_t finish() {
    const std::string_view piece = text_.substr(start_, end_ - start_);
    start_ = end_;
    return piece.empty() ? 0 : encoder_.cut_by(next_, piece);
  }

  size_t end() const { return end_; }

 private:
  Encoder& encoder_;
  const Split& split_;
  const size_t next_;
  const std::string_view text_;
  size_t start_ = 0, end_ = 0;  // of the piece that may still grow
  bool previous_ = false;
};

// Cuts by one split, and each piece by the next ones.
int64_t Encoder::cut_by(size_t number, std::string_view text) {
  if (number == split_count_) return merge(text);
  Pieces pieces(*this, number, text);
  for (size_t at = 0, end; at < text.size();) {
    if (const int64_t failure = programs_.match(splits_[number].code, text, at, &end)) return failure;
    if (end == at) {
      at += Programs::step(text.substr(at));
      continue;
    }
    int64_t failure = at > pieces.end() ? pieces.add(at, false) : 0;
    if (!failure) failure = pieces.add(end, true);
    if (failure) return failure;
    at = end;
  }
  const int64_t failure = text.size() > pieces.end() ? pieces.add(text.size(), false) : 0;
  return failure ? failure : pieces.finish();
}

int64_t Encoder::merge(std::string_view piece) {
  first_ = false;
  if (alphabet_) {
    spelled_.clear();
    for (const char byte : piece) {
      const uint32_t code = letter(static_cast<uint8_t>(byte));
      const char two[] = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
      const char one = static_cast<char>(code);
      if (!spelled_.append(code < 0x80 ? &one : two, code < 0x80 ? 1 : 2)) return kNoMemory;
    }
    piece = view(spelled_);
  }
  if (!merger_.merge(piece.data(), piece.size())) return merger_.failure();
  return ids_->append(merger_.ids().begin(), merger_.ids().size()) ? kDone : kNoMemory;
}

}  // namespace edgedec::text
