#include "core/control/batch_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace edgedec::engine {
namespace {

constexpr int64_t kPlainEveryPasses = 32;  // behind drafts, after which a plain one shows the level

}  // namespace

double SequenceCosts::seconds(int tokens) const {
  const int drafted = std::clamp(tokens, 1, longest()) - 1;
  if (!drafted) return plain();
  if (often_.empty()) return plain() + more(others_, drafted);
  double sum = 0.0;
  int passes = 0;
  for (const auto& [theirs, count] : often_) {
    sum += count * more(theirs, drafted);
    passes += count;
  }
  return plain() + sum / passes;
}

double SequenceCosts::least_slope(int more) const {
  if (slope_.first != more) slope_ = {more, Costs::least_slope(more)};
  return slope_.second;
}

// Seconds that drafted tokens add to a pass in which the others have `theirs`.
double SequenceCosts::more(int theirs, int drafted) const {
  const int everyone = others_ + 1, total = theirs + 1 + drafted;
  const double all = whole(total);
  const double added = all - whole(total - drafted);
  const double share = (all - whole(everyone)) * drafted / (total - everyone);
  return std::max(added, share);
}

// Nobody can be level with the others without being ahead at first: by a token, or as much again as the slowest gains.
double SequenceCosts::worth(double accepted) const {
  if (!others_) return accepted;
  const int everyone = others_ + 1;
  const double level = std::min(accepted, 1.0 + 2.0 * (slowest_ - 1.0));
  return level + (accepted - level) * (whole(everyone) - whole(others_)) / plain();
}

void SequenceCosts::shared(int others, int tokens, double pace) {
  if (others != others_) passes_ = 0;
  others_ = others;
  slowest_ = std::max(pace, 1.0);
  recent_[passes_++ % kRecentPasses] = tokens;
  slope_ = {0, 0.0};
  often_.clear();
  for (size_t at = 0; at < std::min(passes_, kRecentPasses); ++at) {
    const auto same = [&](const auto& one) { return one.first == recent_[at]; };
    const auto known = std::find_if(often_.begin(), often_.end(), same);
    if (known == often_.end()) often_.emplace_back(recent_[at], 1);
    else ++known->second;
  }
}

// Seconds of a whole pass; beyond the table as many times the longest as it has more tokens.
double SequenceCosts::whole(int tokens) const {
  const int longest = inner_.longest();
  const double times = static_cast<double>(tokens) / longest;
  return inner_.seconds(std::min(tokens, longest)) * std::max(times, 1.0);
}

void BatchCosts::passed(Span<const std::pair<int, int>> tokens, double seconds, const PassReads* reads) {
  int total = 0;
  for (const auto& [sequence, own] : tokens) total += own;
  seconds = table_.expected(total, seconds, reads);
  ++passes_;
  trials_.passed();
  const bool plain = static_cast<size_t>(total) == tokens.size();
  const bool sampled = passes_ % kSampled == 0 || asked_ || table_.level_is_old();
  if (!plain || sampled) table_.observe(total, seconds, plain);
  const bool due = due_plain(plain);
  for (const auto& [sequence, own] : tokens) {
    double pace = std::numeric_limits<double>::infinity();
    for (const auto& [other, theirs] : tokens)
      if (other != sequence) pace = std::min(pace, views_[static_cast<size_t>(other)].pace());
    views_[static_cast<size_t>(sequence)].shared(static_cast<int>(tokens.size()) - 1, total - own, pace);
    views_[static_cast<size_t>(sequence)].due_plain(due);
  }
}

// Whether the next pass is to be plain. Sequences with tokens that follow for sure make none, and are not asked for ever.
bool BatchCosts::due_plain(bool plain) {
  since_plain_ = plain ? 0 : since_plain_ + 1;
  if (plain && !table_.plain_is_unclear()) asked_ = 0;
  if (!asked_ && since_plain_ < kPlainEveryPasses && !table_.plain_is_unclear()) return false;
  asked_ = (asked_ + 1) % kPlainEveryPasses;
  return asked_ > 0 && asked_ <= kRestRounds;
}

}  // namespace edgedec::engine
