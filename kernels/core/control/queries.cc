#include "core/control/queries.h"

#include <algorithm>
#include <limits>

namespace edgedec::engine {
namespace {

constexpr int kTryDepth = 4;      // levels of the first drafts of a drafter that may turn out costly, and
constexpr double kTryFloor = 0.2;  // the least probable path of one that was pretrained
constexpr int kFirstLevels = 1;     // of the first draft of a drafter that is costly for sure
constexpr double kFewTokens = 2.0;  // drafted tokens that must be affordable for a query to make sense
constexpr double kUnprofitable = 0.65;  // where tokens have to be more probable than this to pay, nobody is queried
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

Queries::Queries(Measurements& measured, int limit)
    : measured_(measured), limit_(std::min(limit, measured.costs.longest() - 1)), waits_(measured.drafters.size()) {}

bool Queries::rest() {
  const Measurements& known = measured_;
  if (known.turn >= quiet_until_) {
    unprofitable_ = least_reach(known.costs, limit_) >= kUnprofitable;
    if (unprofitable_) quiet_until_ = known.turn + kRestRounds;
  }
  return known.turn < quiet_until_ && (unprofitable_ || !known.any_costly());
}

void Queries::cheap(int room, std::vector<Query>* queries) {
  const Measurements& known = measured_;
  queries->clear();
  if (known.turn < quiet_until_ || known.due_plain()) return;
  const double plain = known.costs.plain(), affordable = spare(room);
  int64_t soonest = kNever;
  for (size_t at = 0; at < known.drafters.size(); ++at) {
    const auto& drafter = known.drafters[at];
    waits_[at] = kNever;
    if (!drafter.here || !measured_.seems_cheap(static_cast<Source>(at))) continue;
    const QueryRecord& record = drafter.record;
    waits_[at] = record.seconds() < affordable ? record.due_in(known.turn, plain) : kRestRounds;
    soonest = std::min(soonest, waits_[at]);
  }
  if (soonest > 0) {
    quiet_until_ = known.turn + (soonest == kNever ? kRestRounds : soonest);
    return;
  }
  const int limit = std::min(room, limit_);
  for (size_t at = 0; at < waits_.size(); ++at) {
    if (waits_[at] <= 0) queries->push_back(cheap_query(static_cast<Source>(at), limit));
  }
}

bool Queries::costly(const FeedPlan& plan, int room, Span<const Source> queried, Query* query) {
  const Measurements& known = measured_;
  int limit = std::min(room, limit_);
  const double affordable = spare(room);
  if (affordable <= 0.0) return false;
  double best = plan.gain;
  Source chosen = Trial::kNobody;
  for (size_t at = 0; at < known.drafters.size(); ++at) {
    const auto source = static_cast<Source>(at);
    if (std::find(queried.begin(), queried.end(), source) != queried.end()) continue;
    if (!promises(source, plan, affordable, best)) continue;
    best = known.of(source).record.gains().hope(known.exploration.rounds());
    chosen = source;
  }
  if (chosen == Trial::kNobody) return false;
  const QueryRecord& record = known.of(chosen).record;
  if (record.unknown()) {
    *query = {chosen, std::min(limit, kFirstLevels), 0.0};
    return true;
  }
  limit = record.levels(affordable, limit);
  const int depth = record.depth(limit, [&](int level) { return price(record, level); });
  *query = {chosen, std::min(2 * depth, limit), std::min(price(record, depth), 1.0)};
  return true;
}

// Whether a costly drafter promises more than `best`, and may be queried.
bool Queries::promises(Source source, const FeedPlan& plan, double affordable, double best) {
  Measurements& known = measured_;
  auto& drafter = known.of(source);
  QueryRecord& record = drafter.record;
  if (!drafter.here || !drafter.costly) return false;
  const double plain = known.costs.plain();
  if (record.dear(2.0 * plain - known.costs.seconds(2))) record.reconsider(known.turn, plain);
  if (record.levels(affordable, 1) < 1) return false;
  const Gains& gains = record.gains();
  const bool pays = gains.value() > gain_without(source, plan);
  return gains.hope(known.exploration.rounds()) > best && (pays || known.may_explore());
}

double Queries::gain_without(Source source, const FeedPlan& plan) const {
  double most = plan.gain;
  for (size_t at = 0; at < measured_.drafters.size(); ++at) {
    const auto& other = measured_.drafters[at];
    if (static_cast<Source>(at) != source && other.here && other.costly)
      most = std::max(most, other.record.gains().value());
  }
  return most;
}

FeedPlan Queries::plan(const DraftTree& tree) {
  const Measurements& known = measured_;
  if (tree.empty()) return {};
  const double spare = std::max(known.credit.passes(), 0.0) * known.costs.plain();
  return planner_.plan(tree, known.costs, {known.rate(), known.verify_overhead.slope(), spare});
}

// Seconds that queries may take now, so that some of what is drafted can be fed, too.
double Queries::spare(int room) const {
  const Measurements& known = measured_;
  if (room < 1 || known.due_plain()) return 0.0;
  const double fed = kFewTokens * known.costs.least_slope(limit_);
  return known.credit.passes() * known.costs.plain() - fed;
}

// Without a floor once its time is known, which is short: only what it proposes can be scored.
Query Queries::cheap_query(Source source, int limit) const {
  const Measurements& known = measured_;
  const auto& drafter = known.of(source);
  if (drafter.record.unknown()) {
    return {source, std::min(limit, kTryDepth), drafter.traits.pretrained ? kTryFloor : 0.0};
  }
  return {source, limit, 0.0};
}

// Tokens that the time is worth in which level `depth` is drafted and a pass reads it.
double Queries::price(const QueryRecord& record, int depth) const {
  const Measurements& known = measured_;
  const Costs& costs = known.costs;
  const double more = costs.seconds(depth + 1) - costs.seconds(depth);
  const double seconds = more + known.verify_overhead.slope() + record.cost().slope();
  return known.rate() * seconds / (costs.worth(depth) - costs.worth(depth - 1));
}

}  // namespace edgedec::engine
