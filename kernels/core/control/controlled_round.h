// Rounds under control: they query, plan and settle.
#pragma once

#include <cstdint>
#include <vector>

#include "core/control/measurements.h"
#include "core/control/merge.h"
#include "core/control/queries.h"
#include "core/control/round.h"

namespace edgedec::engine {

// A round in which no drafter is queried.
class RestingRound final : public Round {
 public:
  RestingRound(Measurements& measured, const Queries& queries) : measured_(measured), queries_(queries) {}

  bool resting() const override { return true; }
  bool unprofitable() const override { return queries_.unprofitable(); }
  const DraftTree& draft(Asker&, const DraftTree&) override { return nothing_; }
  double pass_s() const override { return measured_.costs.plain(); }
  void settle(Span<const int32_t>, const RoundTimes& times) override { measured_.rested(times.passing); }

 private:
  Measurements& measured_;
  const Queries& queries_;
  const DraftTree nothing_;
};

// A round that may feed drafted tokens. Its buffers serve the next one.
class ControlledRound final : public Round {
 public:
  ControlledRound(Measurements& measured, Queries& queries) : measured_(measured), queries_(queries) {}

  // Starts a round that may feed `room` drafted tokens.
  void begin(int room);

  bool resting() const override { return false; }
  bool unprofitable() const override { return false; }
  const DraftTree& draft(Asker& asker, const DraftTree& certain) override;
  double pass_s() const override { return outcome_.pass_s(measured_); }
  void settle(Span<const int32_t> committed, const RoundTimes& times) override;

 private:
  FeedPlan planned();
  void ask(Asker& asker, const Query& query);
  void propose(const DraftTree& tree);
  void heard(Source source);
  int reused() const;
  void watch();

  Measurements& measured_;
  Queries& queries_;
  Merger merger_;
  int room_ = 0;
  Settlement outcome_;
  DraftAnswer answer_;
  std::vector<DraftTree> proposed_;  // the first ones of them are this round's
  size_t proposals_ = 0;
  std::vector<Query> cheap_;
  std::vector<Source> queried_;
  std::vector<int32_t> peeked_;  // drafted tokens of which a query computed a part
};

}  // namespace edgedec::engine
