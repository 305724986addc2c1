// Checks of the machine's speed, so that a round is charged by a plain pass under the same load.
#pragma once

#include <cstdint>
#include <vector>

#include "core/control/costs.h"
#include "core/control/settlement.h"

namespace edgedec::engine {

// Hears the outcome of checks.
struct LevelListener {
  // All times have changed by this ratio.
  virtual void rescale(double ratio) = 0;
  // A round's times count `scale` times as measured.
  virtual void settle(const Settlement& round, double scale) = 0;

 protected:
  ~LevelListener() = default;
};

// Watches the times of passes, and of calls that make a part of them. A round in which one deviates is held back: plain passes come next,
// which lose nothing, and it is settled by their level. Checks that find the old level become rare.
class LevelCheck {
 public:
  LevelCheck(Costs& costs, LevelListener& listener);

  // Notes a call or a pass that usually takes `usual` seconds.
  void saw(double seconds, double usual);
  // Notes the first call of a drafter that peeks, which nothing shows to be longer than it was before.
  void saw_first_call() { first_call_ = true; }
  // Settles a round, now or when the level is known.
  void settle(int64_t turn, const Settlement& round);
  // Takes the level from a pass over `tokens`, where that of an earlier process is all that is known.
  void take(int tokens, double seconds);
  // Observes a pass over one token.
  void plain(int64_t turn, double seconds);

 private:
  struct Held {
    Settlement round;
    bool deviated;
  };

  bool due(int64_t turn);
  bool doubt();
  void conclude(int64_t turn);

  Costs& costs_;
  LevelListener& listener_;
  bool deviated_ = false, first_call_ = false;  // whether a time of this round did, and whether it has such a call
  std::vector<Held> held_;
  double level_ = 0.0;     // seconds of a plain pass before the check under way; 0: there is none
  bool learning_ = false;  // whether the check under way was made for a first call
  int64_t wait_;
  int64_t next_ = 0;
};

}  // namespace edgedec::engine
