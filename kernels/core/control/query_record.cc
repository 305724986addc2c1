#include "core/control/query_record.h"

#include <cmath>

namespace edgedec::engine {
namespace {

constexpr double kLongCall = 1.0 + kUsualSpread;  // times the usual that a call counts for which took longer
constexpr int kInterruptedCalls = 3;   // long calls in a row that no longer count as interruptions
constexpr double kDoubtedPasses = 18.0;  // time of first calls, each longer than a pass per level, not believed
constexpr double kRetriedShare = 0.01;    // of all passes that may go into calls of a drafter that seems too dear
constexpr double kVainShare = 0.003;      // of a plain pass, on average, that a drafter queried in vain may take
constexpr int64_t kRarestRounds = 32;
constexpr int kPatience = 4;  // queries in vain before a drafter is queried half as often
constexpr double kUsualRate = 0.7;  // acceptance rate assumed of a costly drafter while few of its tokens were seen

}  // namespace

double QueryRecord::took(int depth, double seconds, double plain) {
  if (unknown_ && doubted(seconds / plain, depth)) return seconds;
  unknown_ = false;
  const double known = std::max(cost_.expected(depth), cost_.on_line(depth));
  const double usual = cost_.known() ? known : seconds;
  long_ = seconds > kLongCall * usual ? long_ + 1 : 0;
  const double most = long_ < kInterruptedCalls ? kLongCall : kOutlier;
  cost_.observe(depth, std::min(seconds, most * usual));
  seconds_ = cost_.mean();
  return std::max(seconds - usual, 0.0);
}

// Returns whether a first call that took so long is not believed: one always, more that are short.
bool QueryRecord::doubted(double passes, int depth) {
  const bool dear = passes > std::max(depth, 1);
  if (!dear || (doubts_ != 0.0 && doubts_ + passes > kDoubtedPasses)) return false;
  doubts_ += passes;
  return true;
}

void QueryRecord::reconsider(int64_t turn, double plain) {
  if (static_cast<double>(turn - last_) > seconds_ / (kRetriedShare * plain)) {
    cost_ = Line();
    seconds_ = 0.0;
    unknown_ = true;
  }
}

void QueryRecord::rescale(double ratio) {
  cost_.rescale(ratio);
  seconds_ *= ratio;
}

int QueryRecord::levels(double spare, int limit) const {
  const double per_level = cost_.slope();
  if (per_level <= 0.0) return seconds_ <= spare ? limit : 0;
  const double levels = std::max(spare - cost_.fixed(), 0.0) / per_level;
  return levels < limit ? static_cast<int>(levels) : limit;
}

int64_t QueryRecord::due_in(int64_t turn, double plain) const {
  const double least = std::ceil(seconds_ / (kVainShare * plain));
  const int64_t affordable = least < kRarestRounds ? std::max<int64_t>(static_cast<int64_t>(least), 1) : kRarestRounds;
  return last_ + std::min(every_, affordable) - turn;
}

void QueryRecord::queried(int64_t turn, bool fed) {
  last_ = turn;
  vain_ = fed ? 0 : vain_ + 1;
  if (fed) {
    every_ = 1;
  } else if (vain_ >= kPatience) {
    every_ = std::min(2 * every_, kRarestRounds);
    vain_ = 0;
  }
}

void QueryRecord::judged(size_t depth, bool right) {
  while (depths_.size() <= depth) depths_.emplace_back(kPriorWeight * kUsualRate, kPriorWeight);
  auto& [hits, seen] = depths_[depth];
  hits = 0.98 * hits + right;
  seen = 0.98 * seen + 1.0;
}

double QueryRecord::rate(size_t depth) const {
  if (depths_.empty()) return kUsualRate;
  const auto& [hits, seen] = depths_[std::min(depth, depths_.size()) - 1];
  return hits / seen;
}

}  // namespace edgedec::engine
