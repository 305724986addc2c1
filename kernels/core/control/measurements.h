// Measurements over all rounds: costs, acceptance, records of queries, and accounts of what may be lost.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/span.h"
#include "core/control/acceptance.h"
#include "core/control/costs.h"
#include "core/control/credit.h"
#include "core/control/level_check.h"
#include "core/control/query_record.h"
#include "core/control/reuse.h"
#include "core/control/settlement.h"

namespace edgedec::engine {

// Facts of a drafter that control needs before its first query.
struct DrafterTraits {
  bool peeks = false;       // its queries compute parts of the pass that follows; costly, always
  bool pretrained = false;  // its stated probabilities mean something from its first query on
};

// The facts that decisions follow from. Rounds tell them what happened.
class Measurements final : public LevelListener {
 public:
  struct Drafter {
    DrafterTraits traits;
    QueryRecord record;
    bool here = true;    // whether it has not been dropped
    bool fresh = true;   // whether it has not been queried in this sequence
    bool costly = true;  // whether one of its calls is dear beside a plain pass
  };

  // `costs` live longer than this.
  Measurements(Costs& costs, Span<const DrafterTraits> drafters);
  Measurements(const Measurements&) = delete;
  Measurements& operator=(const Measurements&) = delete;

  Costs& costs;
  Reuse reuse;  // times of passes behind their queries
  Acceptance acceptance;
  Credit credit;
  std::vector<Drafter> drafters;
  ExplorationBudget exploration;
  Line verify_overhead;  // seconds of verification per drafted token
  int64_t turn = 0;      // rounds so far
  std::vector<int32_t> stop_ids;
  LevelCheck level;  // the speed of the machine

  Drafter& of(Source source) { return drafters[static_cast<size_t>(source)]; }
  const Drafter& of(Source source) const { return drafters[static_cast<size_t>(source)]; }
  // Whether a drafter is costly and has not been dropped.
  bool any_costly() const;

  // Whether a drafter peeks.
  bool peeking() const { return peeking_; }

  void begin(Span<const int32_t> stops);
  void drop(Source source) { of(source).here = false; }
  // Tokens per second lately, by what passes cost; never less than plain decoding's.
  double rate() const;
  // Whether it has become unclear what plain decoding costs.
  bool due_plain() const;
  // Notes whether a call of this drafter is costly now.
  void classify(Source source);
  // Notes a round in which nobody was queried, with the seconds of its pass if they were measured.
  void rested(std::optional<double> passing);
  // Returns the seconds to charge for a pass that usually takes `usual`: these, where it deviates as usual and where
  // it is one that took longer; two in a row are not the machine's doing.
  double charged(double seconds, double usual);
  // Notes the seconds that verification took beside the pass; an interrupted one hardly counts.
  void verified(size_t drafted, double seconds);
  // Notes that a pass fed `drafted` tokens of drafts.
  void passed(size_t drafted) { since_plain_ = drafted ? since_plain_ + 1 : 0; }
  // Notes a round that committed what is worth `tokens` and took as long as `cost` plain passes. It discounts the gains of
  // costly drafters so far.
  void count(double tokens, double cost);

  // Whether a costly drafter that seems not to pay may be tried.
  bool may_explore();
  // Whether a drafter may be queried as a cheap one: if no call was timed yet, another sequence of a batch may have timed
  // one, or be about to.
  bool seems_cheap(Source source);
  // Notes what a try of a costly drafter lost, in plain passes: those of a batch try the same one, and together they may
  // lose what one may.
  void explored(double passes) { exploration.lost(costs.sequences() * passes); }
  // Notes what it lost by reading the prompt.
  void explored_reading(double passes);
  void rescale(double ratio) override;
  void settle(const Settlement& round, double scale) override { round.settle(*this, scale); }

 private:
  int64_t since_plain_ = 0;  // rounds since the last one without drafts
  double tokens_ = 0.0, passes_ = 0.0;
  bool peeking_ = false;  // whether a drafter peeks
  int long_passes_ = 0;  // behind drafts in a row that took longer than usual
};

}  // namespace edgedec::engine
