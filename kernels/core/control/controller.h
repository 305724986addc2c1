// The controller: one for all sequences of an engine, which makes a round at a time.
#pragma once

#include "core/control/controlled_round.h"

namespace edgedec::engine {

// Plans rounds so that decoding is as quick as drafts allow, and never slower than without. All times are handed in,
// in seconds; there is no clock and no randomness in here.
class Controller final : public Control {
 public:
  // Drafts have at most `limit` tokens. `costs` live longer than this.
  Controller(Costs& costs, Span<const DrafterTraits> drafters, int limit)
      : measured_(costs, drafters), queries_(measured_, limit), resting_(measured_, queries_),
        drafting_(measured_, queries_) {}
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  const Measurements& measured() const { return measured_; }

  void begin(Span<const int32_t> stop_ids) override { measured_.begin(stop_ids); }
  void drop(Source source) override { measured_.drop(source); }

  Round& round(int room) override {
    ++measured_.turn;
    if (queries_.rest()) return resting_;
    drafting_.begin(room);
    return drafting_;
  }

 private:
  Measurements measured_;
  Queries queries_;
  RestingRound resting_;
  ControlledRound drafting_;
};

}  // namespace edgedec::engine
