#include "core/control/trials.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/control/costs.h"
#include "core/control/credit.h"

namespace edgedec::engine {
namespace {

constexpr double kDiscount = 0.995;
constexpr double kWidthTokens = 0.8;   // scale of the confidence bound
constexpr double kShareOfGains = 0.04;  // of what costly drafters gain that exploration may lose, too

}  // namespace

void Gains::fade() {
  pulls_ *= kDiscount;
  sum_ *= kDiscount;
}

void Gains::gained(double tokens) {
  pulls_ += 1.0;
  sum_ += tokens;
}

double Gains::value() const { return pulls_ != 0.0 ? sum_ / pulls_ : -std::numeric_limits<double>::infinity(); }

double Gains::hope(double rounds) const {
  if (pulls_ < 1e-3) return std::numeric_limits<double>::infinity();
  return value() + kWidthTokens * std::sqrt(2.0 * std::log(std::max(rounds, 2.0)) / pulls_);
}

void ExplorationBudget::round(double cost) {
  rounds_ = kDiscount * rounds_ + 1.0;
  left_ = std::min(left_ + kLossShare * cost, kExploredPasses);
}

void ExplorationBudget::lost(double passes) { left_ = std::min(left_ - passes, kExploredPasses); }

void ExplorationBudget::gained(double passes) { lost(-kShareOfGains * std::max(passes, 0.0)); }

SharedTrials::Known& SharedTrials::of(size_t drafter) {
  if (drafter >= known_.size()) known_.resize(drafter + 1);
  return known_[drafter];
}

SharedTrials::Answer SharedTrials::may_time(size_t drafter, const void* who, CallTimes* times) {
  const Held held(lock_);
  Known& one = of(drafter);
  if (one.timed) {
    *times = one.times;
    return Answer::kKnown;
  }
  // A first call reads, and the second one is timed; who ended before that is not waited for.
  if (one.who && one.who != who && passes_ - one.pass <= kRestRounds) return Answer::kNotNow;
  one.who = who;
  one.pass = passes_;
  return Answer::kYourTurn;
}

void SharedTrials::timed(size_t drafter, const CallTimes& times) {
  const Held held(lock_);
  of(drafter).timed = true;
  of(drafter).times = times;
}

void SharedTrials::passed() {
  const Held held(lock_);
  ++passes_;
}

bool SharedTrials::allowed() const {
  const Held held(lock_);
  return budget_.allowed();
}

void SharedTrials::round(double cost) {
  const Held held(lock_);
  budget_.round(cost);
}

void SharedTrials::lost(double passes) {
  const Held held(lock_);
  budget_.lost(passes);
}

}  // namespace edgedec::engine
