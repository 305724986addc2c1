// Tries of costly drafters that seem not to pay: how much they may lose, and how sequences of a batch share them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/spin_lock.h"
#include "core/control/linear_fit.h"

namespace edgedec::engine {

// Gains of queries of a costly drafter, in tokens above what the round's time is worth.
class Gains {
 public:
  // Discounts what was gained so far: a round went by.
  void fade();
  // Notes a query.
  void gained(double tokens);
  // Mean gain of a query.
  double value() const;
  // Upper confidence bound of a query's gain after `rounds` (discounted) rounds.
  double hope(double rounds) const;

 private:
  double pulls_ = 0.0, sum_ = 0.0;
};

// Bound of the loss by trying costly drafters, in plain passes, against decoding without them.
class ExplorationBudget {
 public:
  // Rounds so far, discounted.
  double rounds() const { return rounds_; }
  // Whether something is left to lose.
  bool allowed() const { return left_ > 0.0; }
  // Notes a round that took as long as `cost` plain passes.
  void round(double cost);
  // Notes what a try lost (gained, if negative).
  void lost(double passes);
  // Notes what a drafter that is known to pay gained or lost.
  void gained(double passes);

 private:
  static constexpr double kExploredPasses = 4.0;  // most that may be lost at a time

  double left_ = kExploredPasses;
  double rounds_ = 0.0;
};

// Seconds that calls of a drafter take.
struct CallTimes {
  Line line;
  double mean = 0.0;
};

// Tries of drafters by sequences of a batch. Alone each would read its prompt with a draft model to learn what another one is
// learning: so one of them times the first calls for all, and all together may read what one may. Their threads may call it at
// the same time.
class SharedTrials {
 public:
  enum class Answer { kYourTurn, kNotNow, kKnown };

  // Whether sequence `who` is to time the first calls of a drafter. Another one may be about to, or have done so: `times`.
  Answer may_time(size_t drafter, const void* who, CallTimes* times);
  void timed(size_t drafter, const CallTimes& times);
  // Notes that a pass of all sequences went by.
  void passed();
  // Whether something is left to lose by reading.
  bool allowed() const;
  // Notes a sequence's round that took as long as `cost` of its plain passes, and what reading lost.
  void round(double cost);
  void lost(double passes);

 private:
  struct Known {
    bool timed = false;
    CallTimes times;
    const void* who = nullptr;  // the sequence that asked last, and
    int64_t pass = 0;           // when
  };
  Known& of(size_t drafter);

  mutable SpinLock lock_;
  ExplorationBudget budget_;
  std::vector<Known> known_;
  int64_t passes_ = 0;
};

}  // namespace edgedec::engine
