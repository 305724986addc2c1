#include "core/control/controlled_round.h"

#include <algorithm>
#include <utility>

namespace edgedec::engine {

void ControlledRound::begin(int room) {
  room_ = room;
  proposals_ = 0;
  queried_.clear();
  outcome_.fed.clear();
  outcome_.calls.clear();
  outcome_.uncharged_s = 0.0;
  outcome_.trial = {};
  outcome_.peeked = false;
}

// Queries cheap drafters, then perhaps a costly one, and chooses how much of their tokens to feed.
const DraftTree& ControlledRound::draft(Asker& asker, const DraftTree& certain) {
  if (!certain.empty()) propose(certain);
  queries_.cheap(room_, &cheap_);
  for (const Query& query : cheap_) ask(asker, query);
  FeedPlan plan = planned();
  if (Query costly; queries_.costly(plan, room_, queried_, &costly)) {
    const double without = queries_.gain_without(costly.source, plan);
    const QueryRecord& record = measured_.of(costly.source).record;
    outcome_.trial = {costly.source, without, record.gains().value() <= without};
    ask(asker, costly);
    plan = planned();
  }
  outcome_.fed.shorten(static_cast<size_t>(plan.nodes));
  outcome_.expected = plan.accepted;
  if (outcome_.peeked) outcome_.reused = reused();
  return outcome_.fed;
}

// Merges what was proposed so far.
FeedPlan ControlledRound::planned() {
  const Span<const DraftTree> proposed = Span<const DraftTree>(proposed_).first(proposals_);
  merger_.merge(proposed, room_, &measured_.acceptance, measured_.stop_ids, &outcome_.fed);
  return queries_.plan(outcome_.fed);
}

void ControlledRound::ask(Asker& asker, const Query& query) {
  answer_.tree.clear();
  answer_.seconds = 0.0;
  answer_.peeked = 0;
  if (asker.ask(query, &answer_)) {
    heard(query.source);
  } else if (outcome_.trial.source == query.source) {
    outcome_.trial = {};
  }
}

void ControlledRound::propose(const DraftTree& tree) {
  if (proposals_ == proposed_.size()) proposed_.emplace_back();
  proposed_[proposals_++] = tree;
}

// Notes an answer and its time.
void ControlledRound::heard(Source source) {
  auto& drafter = measured_.of(source);
  const int depth = answer_.tree.depth();
  const bool fresh = drafter.fresh;
  if (answer_.peeked > 0) {
    const auto& tokens = answer_.tree.tokens;
    const size_t drafted = std::min(static_cast<size_t>(answer_.peeked - 1), tokens.size());
    outcome_.peeked = true;
    peeked_.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(drafted));
  }
  if (!answer_.tree.empty()) {
    propose(answer_.tree);
  }
  const bool reads = fresh || (drafter.costly && drafter.record.paused(measured_.turn));
  if (reads && !drafter.traits.peeks) {
    const double reading = std::max(answer_.seconds - drafter.record.cost().expected(depth), 0.0);
    outcome_.uncharged_s += reading;
    const Trial& trial = outcome_.trial;
    if (trial.exploring && trial.source == source) measured_.explored_reading(reading / measured_.costs.plain());
  } else {
    outcome_.calls.push_back({source, depth, answer_.seconds});
  }
  drafter.fresh = false;
  queried_.push_back(source);
}

// Tokens of the pass that the query computed parts of.
int ControlledRound::reused() const {
  int node = kRoot, count = 1;
  for (const int32_t token : peeked_) {
    node = outcome_.fed.child(node, token);
    if (node == kNone) break;
    ++count;
  }
  return count;
}

// Scores drafters by `committed`, observes costs, and books the round on the credit.
void ControlledRound::settle(Span<const int32_t> committed, const RoundTimes& times) {
  const DraftTree& fed = outcome_.fed;
  if (queried_.empty() && fed.empty()) {
    measured_.rested(times.passing);
    return;
  }
  outcome_.committed.assign(committed.begin(), committed.end());
  outcome_.times = times;
  for (size_t at = 0; at < proposals_; ++at) measured_.acceptance.observe(proposed_[at], committed);
  measured_.passed(fed.size());
  watch();
  measured_.level.settle(measured_.turn, outcome_);
  for (const Source source : queried_) {
    if (!measured_.of(source).here) continue;
    const bool used = std::find(fed.sources.begin(), fed.sources.end(), source) != fed.sources.end();
    measured_.of(source).record.queried(measured_.turn, used);
  }
}

// Compares the times of calls that make parts of passes, and of the pass, with the usual ones, where these are known.
// Other costly calls show in the same round whether it is the machine.
void ControlledRound::watch() {
  if (measured_.costs.level_is_old() || (measured_.any_costly() && !measured_.peeking())) return;
  for (const Call& call : outcome_.calls) {
    const auto& drafter = measured_.of(call.source);
    if (!drafter.here || !drafter.traits.peeks) continue;
    if (drafter.record.unknown()) {
      measured_.level.saw_first_call();
    } else {
      measured_.level.saw(call.seconds, drafter.record.cost().on_line(call.depth));
    }
  }
  const int tokens = 1 + static_cast<int>(outcome_.fed.size());
  const bool known = !outcome_.peeked || measured_.reuse.known(tokens, outcome_.reused);
  const auto& passing = outcome_.times.passing;
  if (passing && known) measured_.level.saw(*passing, pass_s());
}

}  // namespace edgedec::engine
