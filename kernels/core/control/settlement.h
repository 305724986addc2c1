// The outcome of a round that fed or queried something, and its price.
#pragma once

#include <cstdint>
#include <vector>

#include "core/control/round.h"
#include "core/tree.h"

namespace edgedec::engine {

class Measurements;

// A query of a costly drafter: the gain without it, and whether that seemed as good.
struct Trial {
  Source source = kNobody;
  double gain_without = 0.0;
  bool exploring = false;

  static constexpr Source kNobody = -1;
  bool under_way() const { return source != kNobody; }
};

// A query, with little to read first, that drafted `depth` levels in so many seconds.
struct Call {
  Source source;
  int depth;
  double seconds;
};

struct Settlement {
  DraftTree fed;
  double expected = 0.0;  // tokens of it that are expected to be accepted
  std::vector<int32_t> committed;
  RoundTimes times;
  std::vector<Call> calls;
  double uncharged_s = 0.0;  // time that drafters took to read, which is not charged to their drafts
  Trial trial;
  bool peeked = false;  // whether a query computed parts of the pass
  int reused = 0;       // tokens of the pass that it did so for

  // Seconds that the pass takes by what is known now.
  double pass_s(const Measurements& measured) const;
  // Learns from the round's times, `scale` times as long as measured, and books it.
  void settle(Measurements& measured, double scale) const;

 private:
  double rise(const Measurements& measured, const RoundTimes& times, double scale) const;
  double passing(Measurements& measured, const RoundTimes& times, double rise) const;
  void account(Measurements& measured, double cost) const;
  void judge(Measurements& measured) const;
};

}  // namespace edgedec::engine
