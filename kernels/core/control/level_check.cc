#include "core/control/level_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace edgedec::engine {
namespace {

constexpr int64_t kMostWait = 256;  // rounds from a check in vain to the next one, at most

}  // namespace

LevelCheck::LevelCheck(Costs& costs, LevelListener& listener)
    : costs_(costs), listener_(listener), wait_(kRestRounds) {}

void LevelCheck::saw(double seconds, double usual) {
  const bool longer = seconds > (1.0 + kUsualSpread) * usual;
  deviated_ = deviated_ || longer || seconds * (1.0 + kUsualSpread) < usual;
}

void LevelCheck::settle(int64_t turn, const Settlement& round) {
  const bool deviated = deviated_;
  if (!due(turn) || !doubt()) {
    listener_.settle(round, 1.0);
    return;
  }
  held_.push_back({round, deviated});
}

void LevelCheck::take(int tokens, double seconds) {
  const double before = costs_.plain();
  costs_.observe(tokens, seconds);
  listener_.rescale(costs_.plain() / before);
}

void LevelCheck::plain(int64_t turn, double seconds) {
  if (costs_.level_is_old() && level_ == 0.0) {
    take(1, seconds);
    return;
  }
  if (!costs_.level_is_old()) {
    saw(seconds, costs_.plain());
    if (due(turn)) doubt();
  }
  costs_.observe(1, seconds);
  if (level_ != 0.0 && !costs_.level_is_old()) conclude(turn);
}

bool LevelCheck::due(int64_t turn) {
  const bool is_due = first_call_ || (deviated_ && turn >= next_);
  learning_ = first_call_;
  deviated_ = first_call_ = false;
  return is_due;
}

// Returns whether a check is under way.
bool LevelCheck::doubt() {
  const double level = costs_.plain();
  if (costs_.doubt_level()) level_ = level;
  return level_ != 0.0;
}

// Settles the rounds held back: those that ran at the old level, as if they had run at this one.
void LevelCheck::conclude(int64_t turn) {
  const double ratio = costs_.plain() / level_;
  const bool changed = std::abs(std::log(ratio)) > std::log(1.0 + kUsualSpread);
  if (changed) listener_.rescale(ratio);
  if (changed || learning_) {
    wait_ = kRestRounds;
  } else {
    wait_ = std::min(2 * wait_, kMostWait);
    next_ = turn + wait_;
  }
  level_ = 0.0;
  for (const Held& one : held_) listener_.settle(one.round, changed && !one.deviated ? ratio : 1.0);
  held_.clear();
}

}  // namespace edgedec::engine
