#include "core/control/settlement.h"

#include <algorithm>

#include "core/control/measurements.h"

namespace edgedec::engine {

double Settlement::pass_s(const Measurements& measured) const {
  const int tokens = 1 + static_cast<int>(fed.size());
  if (peeked) return measured.reuse.expected(measured.costs, tokens, reused);
  return measured.costs.seconds(tokens);
}

void Settlement::settle(Measurements& measured, double scale) const {
  RoundTimes scaled = times.scaled(scale);
  if (measured.costs.level_is_old() && scaled.passing) {  // such a pass shows the level, and nothing of its own cost
    measured.level.take(1 + static_cast<int>(fed.size()), *scaled.passing);
    scaled.passing.reset();
  }
  const double alike = rise(measured, scaled, scale);
  double uncharged = scale * uncharged_s;
  for (const Call& call : calls) {
    if (!measured.of(call.source).here) continue;
    uncharged += measured.of(call.source).record.took(call.depth, scale * call.seconds, measured.costs.plain());
    measured.classify(call.source);
  }
  const double pass = passing(measured, scaled, alike);
  const auto drafted = static_cast<double>(fed.size());
  const double took = pass + scaled.luck + scaled.drafting - uncharged + measured.verify_overhead.slope() * drafted;
  account(measured, took / measured.costs.plain());
}

// Returns how many times as long as usual both the calls of a costly drafter and the pass took: that is the machine's doing.
// Calls that take microseconds say nothing of it.
double Settlement::rise(const Measurements& measured, const RoundTimes& scaled, double scale) const {
  double spent = 0.0, usual = 0.0;
  for (const Call& call : calls) {
    const auto& drafter = measured.of(call.source);
    if (!drafter.here || !drafter.costly || drafter.record.unknown()) continue;
    spent += scale * call.seconds;
    usual += drafter.record.cost().on_line(call.depth);
  }
  if (!scaled.passing || peeked || usual <= 0.0) return 1.0;
  const double pass = measured.costs.seconds(1 + static_cast<int>(fed.size()));
  return std::max(std::min(spent / usual, *scaled.passing / pass), 1.0);
}

// Seconds to charge for the pass: the usual ones, or the measured ones if the curve is wrong. An ordinary deviation,
// an interruption, and what calls and the pass took longer alike (`rise`) are the machine's doing: charging them would use
// up the credit of good drafts.
double Settlement::passing(Measurements& measured, const RoundTimes& scaled, double rise) const {
  const size_t drafted = fed.size();
  const int tokens = 1 + static_cast<int>(drafted);
  if (peeked) {
    measured.verified(drafted, scaled.verifying);
    const double usual = measured.reuse.expected(measured.costs, tokens, reused);
    const double passing = measured.reuse.passing(measured.costs, tokens, reused, scaled.passing);
    return measured.charged(passing, usual);
  }
  const double usual = measured.costs.seconds(tokens);
  if (!scaled.passing) return usual;
  const bool believed = measured.costs.observe(tokens, *scaled.passing);
  measured.verified(drafted, scaled.verifying);
  return believed && drafted ? measured.charged(*scaled.passing / rise, usual) : usual;
}

// Books the round, which took as long as `cost` plain passes.
void Settlement::account(Measurements& measured, double cost) const {
  const double more = static_cast<double>(committed.size()) - 1.0, tokens = 1.0 + measured.costs.worth(more);
  measured.credit.book(tokens, cost);
  if (trial.under_way() && measured.of(trial.source).here) {
    auto& drafter = measured.of(trial.source);
    // What came of one query says little about the next: where probabilities mean something, they count.
    const double accepted = measured.costs.worth(drafter.traits.pretrained ? expected : more);
    const double gain = accepted - measured.rate() * measured.costs.plain() * (cost - 1.0);
    const double better = gain - trial.gain_without;
    QueryRecord& record = drafter.record;
    record.gains().gained(gain);
    judge(measured);
    if (!trial.exploring) {
      measured.exploration.gained(better);
    } else {
      measured.explored(-better);
    }
  }
  measured.count(tokens, cost);
  measured.costs.committed(committed.size());
}

// Scores the levels that a costly drafter had tokens on.
void Settlement::judge(Measurements& measured) const {
  int level = kRoot;
  for (size_t depth = 0; depth < committed.size(); ++depth) {
    bool drafted = false;
    for (size_t node = 0; node < fed.size(); ++node) {
      drafted = drafted || (fed.parents[node] == level && fed.sources[node] == trial.source);
    }
    const int following = fed.child(level, committed[depth]);
    if (drafted) measured.of(trial.source).record.judged(depth, following != kNone);
    if (following == kNone) return;
    level = following;
  }
}

}  // namespace edgedec::engine
