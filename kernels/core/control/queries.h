// Queries and plans: which drafters a round queries, for how much, and how much of their drafts it feeds.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/span.h"
#include "core/control/measurements.h"
#include "core/control/planner.h"
#include "core/control/round.h"

namespace edgedec::engine {

// Decides by what was measured.
class Queries {
 public:
  // Drafts have at most `limit` tokens. `measured` lives longer than this.
  Queries(Measurements& measured, int limit);

  // Whether no draft can win what querying and learning take, at these costs.
  bool unprofitable() const { return unprofitable_; }
  // Returns whether the round that begins now queries nobody.
  bool rest();
  // Writes the queries to begin a round with: those of drafters that cost next to nothing, as far as due.
  void cheap(int room, std::vector<Query>* queries);
  // Finds the costly drafter that promises most above `plan`, made of the others' drafts. Returns false if none does.
  bool costly(const FeedPlan& plan, int room, Span<const Source> queried, Query* query);
  // The gain of `plan`, or of the query of another costly drafter that gains more.
  double gain_without(Source source, const FeedPlan& plan) const;
  // Chooses how much of a merged draft to feed.
  FeedPlan plan(const DraftTree& tree);

 private:
  bool promises(Source source, const FeedPlan& plan, double spare, double best);
  double spare(int room) const;
  Query cheap_query(Source source, int limit) const;
  double price(const QueryRecord& record, int depth) const;

  Measurements& measured_;
  Planner planner_;
  int limit_;
  bool unprofitable_ = false;
  int64_t quiet_until_ = 0;  // the round before which no cheap drafter is queried
  std::vector<int64_t> waits_;  // of drafters, in rounds
};

}  // namespace edgedec::engine
