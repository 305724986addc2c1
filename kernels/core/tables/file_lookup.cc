#include "core/tables/file_lookup.h"

#include <algorithm>
#include <new>

#include "core/tables/tree.h"

namespace edgedec::draft {
namespace {

constexpr int32_t kFileEnd = -1;  // behind each file, and all that is no token; before all tokens in the order
// A match weighs kSquareWeight times its squared length: one that is long says more than many short ones. Doubt weighs 1.
// Tokens that are drafted add nothing to it: they are no evidence.
constexpr double kSquareWeight = 0.1;

double weight_of(int length) { return kSquareWeight * length * length; }

}  // namespace

void FileLookup::begin(const int32_t* tokens, size_t count, size_t) {
  known_ = 0;
  commit(tokens, count);
}

void FileLookup::commit(const int32_t* tokens, size_t count) {
  const int more = static_cast<int>(std::min<size_t>(count, kDeepest));
  std::copy_backward(latest_, latest_ + std::min(known_, kDeepest - more), latest_ + std::min(known_ + more, kDeepest));
  for (int i = 0; i < more; ++i) latest_[i] = tokens[count - 1 - static_cast<size_t>(i)];
  known_ = std::min(known_ + more, kDeepest);
}

int FileLookup::propose(int64_t limit, double floor, const Tree& tree) const {
  Match matches[kMatches];
  const Span all = {0, find(matches)};
  const auto next = [&](Span span, const auto& put) { following(matches, span, put); };
  return best_first<kMatches>(all, limit, floor, next, tree);
}

// Calls put() with each token that follows a match, its probability, and the matches that continue with it. A match is
// in one span at a time, so the new spans overwrite the old one.
template <class Put>
void FileLookup::following(Match* matches, Span span, const Put& put) const {
  int32_t tokens[kMatches];
  double weights[kMatches];
  Match longer[kMatches][kMatches];
  int counts[kMatches], kinds = 0;
  double total = 1.0;
  for (const Match* match = matches + span.first; match != matches + span.first + span.count; ++match) {
    const int32_t follower = token(match->next);
    if (follower == kFileEnd) continue;
    const int kind = static_cast<int>(std::find(tokens, tokens + kinds, follower) - tokens);
    if (kind == kinds) tokens[kind] = follower, weights[kind] = 0.0, counts[kind] = 0, ++kinds;
    total += weight_of(match->length);
    weights[kind] += weight_of(match->length);
    longer[kind][counts[kind]++] = {match->next + 1, match->length};
  }
  Span part = {span.first, 0};
  for (int kind = 0; kind < kinds; ++kind) {
    part = {part.first + part.count, counts[kind]};
    std::copy_n(longer[kind], part.count, matches + part.first);
    put(tokens[kind], weights[kind] / total, part);
  }
}

// Finds the places whose text before agrees longest with the latest tokens, and shorter ones down to half of that.
int FileLookup::find(Match* found) const {
  const int64_t at = first_not(true, known_);
  int64_t low = at, high = at;  // the places from low to high are in `found`, or were passed over
  int count = 0, least = 1;
  while (count < kMatches) {
    const int length = std::max(common(low - 1, known_), common(high, known_));
    if (length < least) break;
    if (!count) least = (length + 1) / 2;
    const int64_t begin = first_not(true, length), end = first_not(false, length);
    if (begin > low || end < high) break;  // only where the order is not what it says
    const int64_t more = (low - begin) + (end - high), taken = std::min<int64_t>(more, kMatches - count);
    for (int64_t i = 0; i < taken; ++i) {
      const int64_t step = i * more / taken, rank = begin + step < low ? begin + step : high + step - (low - begin);
      found[count++] = {place(rank), length};
    }
    if (!more) break;
    low = begin, high = end;
  }
  return count;
}

// The number of tokens, `most` at most, in which the text before the place of this rank agrees with the latest tokens.
int FileLookup::common(int64_t rank, int most) const {
  const int64_t here = place(rank);
  int length = 0;
  while (length < most && token(here - 1 - length) == latest_[length] && latest_[length] >= 0) ++length;
  return length;
}

// The first rank whose text before, in its first `length` tokens read backwards, is not below the latest tokens; or, for
// `below` false, is above them.
int64_t FileLookup::first_not(bool below, int length) const {
  int64_t low = 0, high = count_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2, here = place(middle);
    const int same = common(middle, length);
    const bool less = same == length ? !below : token(here - 1 - same) < latest_[same];
    if (less)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int64_t FileLookup::place(int64_t rank) const { return rank < 0 || rank >= count_ ? -1 : int64_t{order_[rank]}; }

int32_t FileLookup::token(int64_t at) const {
  if (at < 0 || at >= count_) return kFileEnd;
  const int32_t found = tokens_[at];
  return found < 0 || found >= vocab_ ? kFileEnd : found;
}

Drafter* make_file_lookup(const int32_t* tokens, const int32_t* order, size_t count, int32_t vocab) {
  return new (std::nothrow) FileLookup(tokens, order, count, vocab);
}

}  // namespace edgedec::draft
