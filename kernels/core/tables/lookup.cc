#include "core/tables/lookup.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/tables/tree.h"

namespace edgedec::draft {
namespace {

constexpr int32_t kNowhere = -1;
constexpr int32_t kSeparator = -1;  // between sequences: not a token, so no match crosses it

constexpr size_t kBuckets = 1 << 15;
constexpr int64_t kLongest = 32;  // tokens of context compared; longer matches predict no better
// Weight of a match per matching token; doubt weighs 1. A single match of two tokens is right half of the time.
constexpr double kWeight = 0.6;
constexpr double kFadedMatch = 0.2;   // factor for matches in earlier sequences
constexpr int64_t kRegret = 64;  // tokens: a sequence that is cut by no more continues, and forgets the cut tokens

}  // namespace

Lookup::Lookup(size_t capacity) : log_(capacity), before_(capacity), latest_(kBuckets) {
  if (latest_) std::fill(latest_.begin(), latest_.end(), kNowhere);
}

void Lookup::begin(const int32_t* tokens, size_t count, size_t kept) {
  kept = std::min(kept, count);
  const auto shared = static_cast<int64_t>(kept);
  if (length_ - begin_ - shared > kRegret) {
    new_sequence();
    return commit(tokens, count);
  }
  cut(std::max<int64_t>(begin_ + shared, 0));
  if (begin_ + shared < 0) begin_ = -shared;  // the next token becomes the first of the log
  commit(tokens + kept, count - kept);
}

void Lookup::commit(const int32_t* tokens, size_t count) {
  for (size_t i = 0; i < count; ++i) append(tokens[i]);
}

int Lookup::propose(int64_t limit, double floor, const Tree& tree) const {
  Match matches[kMatches];
  const Span all = {0, find(matches)};
  const auto next = [&](Span span, const auto& put) { following(matches, span, put); };
  return best_first<kMatches>(all, limit, floor, next, tree);
}

// Calls put() with each token that follows a match, its probability, and the matches that continue with it. A match is
// in one span at a time, so the new spans overwrite the old one.
template <class Put>
void Lookup::following(Match* matches, Span span, const Put& put) const {
  int32_t tokens[kMatches];
  double weights[kMatches];
  Match longer[kMatches][kMatches];
  int counts[kMatches], kinds = 0;
  double total = 1.0;
  for (const Match* match = matches + span.first; match != matches + span.first + span.count; ++match) {
    if (match->next >= length_ || log_[match->next] == kSeparator) continue;
    const int32_t token = log_[match->next];
    const int kind = static_cast<int>(std::find(tokens, tokens + kinds, token) - tokens);
    if (kind == kinds) tokens[kind] = token, weights[kind] = 0.0, counts[kind] = 0, ++kinds;
    total += match->weight;
    weights[kind] += match->weight;
    longer[kind][counts[kind]++] = {match->next + 1, match->weight + match->gain, match->gain};
  }
  Span part = {span.first, 0};
  for (int kind = 0; kind < kinds; ++kind) {
    part = {part.first + part.count, counts[kind]};
    std::copy_n(longer[kind], part.count, matches + part.first);
    put(tokens[kind], weights[kind] / total, part);
  }
}

// Finds earlier occurrences of the latest tokens.
int Lookup::find(Match* found) const {
  const int64_t end = length_ - 1;
  if (end < 1 || end - begin_ < 1) return 0;
  int count = 0;
  for (int64_t position = before_[end]; position != kNowhere && count < kMatches; position = before_[position]) {
    const int64_t length = common(position, end);
    if (length < 2) continue;  // another pair of tokens in the same bucket
    const double gain = position >= begin_ ? kWeight : kWeight * kFadedMatch;
    found[count++] = {position + 1, gain * static_cast<double>(length), gain};
  }
  return count;
}

int64_t Lookup::common(int64_t position, int64_t end) const {
  const int64_t most = std::min({kLongest, position + 1, end + 1 - begin_});
  int64_t length = 0;
  while (length < most && log_[position - length] == log_[end - length]) ++length;
  return length;
}

void Lookup::append(int32_t token) {
  if (static_cast<size_t>(length_) == log_.size()) forget_oldest();
  log_[length_] = token;
  int32_t& latest = latest_[bucket(length_)];
  before_[length_] = latest;
  latest = static_cast<int32_t>(length_++);
}

void Lookup::cut(int64_t length) {
  for (; length_ > length; --length_) latest_[bucket(length_ - 1)] = before_[length_ - 1];
}

// Keeps the newer half of the log.
void Lookup::forget_oldest() {
  const int64_t kept = static_cast<int64_t>(log_.size() / 2), drop = length_ - kept;
  begin_ -= drop;
  std::copy(log_.begin() + drop, log_.begin() + length_, log_.begin());
  std::fill(latest_.begin(), latest_.end(), kNowhere);
  length_ = 0;
  while (length_ < kept) append(log_[length_]);
}

void Lookup::new_sequence() {
  append(kSeparator);
  begin_ = length_;
}

size_t Lookup::bucket(int64_t position) const {
  const auto first = static_cast<uint64_t>(int64_t{position ? log_[position - 1] : kSeparator});
  const auto second = static_cast<uint64_t>(int64_t{log_[position]});
  return (first * 0x9E3779B1 + second * 0x85EBCA77) >> 7 & (kBuckets - 1);
}

void Lookup::save(uint8_t* out) const {
  if (length_) std::memcpy(out, log_.begin(), saved_size());
}

Drafter::Restored Lookup::restore(const uint8_t* data, size_t size, int64_t vocab) {
  if (size % sizeof(int32_t)) return Restored::kSize;
  const auto token = [data](size_t at) {
    int32_t value;
    std::memcpy(&value, data + at, sizeof value);
    return value;
  };
  for (size_t at = 0; at < size; at += sizeof(int32_t))
    if (token(at) < kSeparator || token(at) >= vocab) return Restored::kToken;
  for (size_t at = 0; at < size; at += sizeof(int32_t)) append(token(at));
  new_sequence();
  return Restored::kDone;
}

Drafter* make_lookup(int64_t capacity) {
  if (capacity > INT32_MAX) return nullptr;  // positions are int32
  auto* lookup = new (std::nothrow) Lookup(static_cast<size_t>(std::max<int64_t>(capacity, 2)));
  if (lookup && !*lookup) delete lookup, lookup = nullptr;
  return lookup;
}

}  // namespace edgedec::draft
