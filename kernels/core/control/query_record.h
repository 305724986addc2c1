// Records of a drafter's queries: what they take and gain, and when the next is due.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/calibration.h"
#include "core/control/costs.h"
#include "core/control/linear_fit.h"
#include "core/control/trials.h"

namespace edgedec::engine {

// Drafters cheaper than this fraction of a plain pass are queried so that they can be scored.
constexpr double kCheapShare = 0.05;

// The record of one drafter. Times in seconds, gains in tokens.
class QueryRecord {
 public:
  // The line of what calls take.
  const Line& cost() const { return cost_; }
  // Whether no call was timed yet.
  bool unknown() const { return unknown_; }
  // Mean time of a call.
  double seconds() const { return seconds_; }
  CallTimes times() const { return {cost_, seconds_}; }
  // Takes over what calls take elsewhere.
  void know(const CallTimes& times) {
    cost_ = times.line;
    seconds_ = times.mean;
    unknown_ = false;
  }

  // Notes a call, with little to read first, that drafted `depth` levels. `plain`: seconds of a pass over one token.
  // Returns the seconds of it that are not charged: those beyond the usual ones, which follow if it goes on.
  double took(int depth, double seconds, double plain);
  // Whether a level seems to take more than `most` seconds.
  bool dear(double most) const { return !unknown_ && cost_.slope() > most; }
  // Forgets what calls took where no draft is worth it, once another one costs little beside all passes.
  void reconsider(int64_t turn, double plain);
  // Notes that everything takes `ratio` times as long from now on.
  void rescale(double ratio);
  // Whether rounds went by without a query: their tokens have to be read first.
  bool paused(int64_t turn) const { return turn - last_ > 1; }
  // Levels of a draft that take at most `spare` seconds; no more than `limit`.
  int levels(double spare, int limit) const;
  // Whether a call is dear beside a pass that takes `plain` seconds.
  bool costly(double plain) const { return seconds_ > kCheapShare * plain; }
  // Rounds from `turn` on until a cheap drafter is due for a query; 0 or less: now.
  int64_t due_in(int64_t turn, double plain) const;
  // Notes a query in round `turn`; `fed`: some of its tokens were worth feeding.
  void queried(int64_t turn, bool fed);

  Gains& gains() { return gains_; }
  const Gains& gains() const { return gains_; }
  // Notes whether a token at `depth`, whose parent was committed, was right.
  void judged(size_t depth, bool right);

  // The depth to draft to, 1 at least, when level `depth` costs `price(depth)` tokens.
  template <class Price>
  int depth(int limit, Price price) const {
    double reach = 1.0, gain = 0.0, best = 0.0;
    int chosen = 1;
    for (int depth = 1; depth <= limit; ++depth) {
      reach *= rate(static_cast<size_t>(depth));
      gain += reach - price(depth);
      if (gain > best) {
        best = gain;
        chosen = depth;
      }
    }
    return chosen;
  }

 private:
  bool doubted(double passes, int depth);
  double rate(size_t depth) const;

  Line cost_;
  bool unknown_ = true;
  double seconds_ = 0.0;
  double doubts_ = 0.0;  // passes that calls took which were not believed
  int long_ = 0;         // calls in a row that took too long
  int64_t every_ = 1, vain_ = 0, last_ = 0;
  Gains gains_;
  std::vector<std::pair<double, double>> depths_;  // tokens that were right and that were seen, by depth
};

}  // namespace edgedec::engine
