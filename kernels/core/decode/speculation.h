// Speculation: drafters, the control over them, and the rounds that they draft for: edgedec/decode/speculation.py.
//
// Drafts never change a token, only how many passes it takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/control/controller.h"
#include "core/control/tally.h"
#include "core/decode/drafter.h"
#include "core/decode/feedback.h"
#include "core/verify/verdict.h"

namespace edgedec::engine {

// Takes costs that drifted during a reply.
class CostKeeper {
 public:
  virtual void keep(const Points& seconds) = 0;

 protected:
  ~CostKeeper() = default;
};

// Hears lines for the user.
class Notice {
 public:
  virtual void tell(const std::string& line) = 0;

 protected:
  ~Notice() = default;
};

// Leaves out tokens of drafters' answers that cannot follow.
class AnswerFilter {
 public:
  // Writes the nodes of `tree` that stay; they ascend and have their parents among them.
  virtual void permitted(const DraftTree& tree, std::vector<int>* nodes) = 0;

 protected:
  ~AnswerFilter() = default;
};

class Speculation final : public HiddenReader, private Asker {
 public:
  struct Setting {
    Costs* costs = nullptr;  // none: every draft is fed up to `limit` tokens, whether it pays or not
    int limit = 15;              // most tokens drafted for one pass
    Clock* clock = nullptr;
    Notice* notice = nullptr;
    CostKeeper* keeper = nullptr;
  };

  Speculation(Drafters drafters, const Setting& setting);

  size_t count() const { return drafters_.size(); }
  const Drafter& drafter(size_t at) const { return *drafters_[at]; }
  // Whether a drafter has not been dropped.
  bool has(size_t at) const { return here_[at]; }
  int limit() const { return limit_; }
  const Tally& tally() const { return tally_; }
  // The source of certain drafts.
  Source certain() const { return static_cast<Source>(drafters_.size()); }
  // How tokens of a drafter, or of certain drafts, were judged by their probability; nothing without costs, where drafts
  // are not judged.
  Span<const Acceptance::Judged> judged(Source source);
  // Seconds of a pass over one token, as measured; 0 where costs are not.
  double plain_s() const { return costs_ ? costs_->plain() : 0.0; }
  // Lowers the limit for replies to come.
  void draft_at_most(int tokens) { limit_ = tokens < limit_ ? tokens : limit_; }

  // Trusts a drafter as one that was pretrained; before the first sequence.
  void trust(size_t at) { drafters_[at]->pretrained = true; }
  // Goes on without a drafter.
  void drop(size_t at);

  // Starts a new sequence, which shares its first `kept` tokens with the one before; `stop_ids` end it.
  // `params`: how its reply is drawn; null: as before.
  void begin(Span<const int32_t> tokens, size_t kept, Span<const int32_t> stop_ids, const DrawParams* params);
  // The reply is over: tells drafters the rest of it, and keeps costs that drifted.
  void end();

  // Begins a round: drafts at most `room` tokens to feed behind the last committed one. The tree lives until settle().
  // `certain` tokens, at most `room`, follow whoever is queried. `filter` sees each answer.
  const DraftTree& draft(int room, const DraftTree& certain = {}, AnswerFilter* filter = nullptr);
  // Lets the round's draft begin with the path that spells `tokens`, as far as it has one.
  const DraftTree& lead(Span<const int32_t> tokens);
  // Begins a round whose pass reads committed tokens, with no draft behind them.
  const DraftTree& undrafted();
  // Whether a drafter needs the round's head rows.
  bool wants_rows() const;
  // Layers, ascending, whose outputs drafters need.
  Span<const int> taps() const override { return taps_; }
  void read(const HiddenStates& states) override;
  // Ends the round: the target answered `rows` to the last committed token and the draft. `timed`: whether the `seconds`
  // of the pass count; `reads`: those of it, where experts lie on a disk.
  void settle(const HeadView& rows, const Verdict& verdict, double seconds, bool timed, const PassReads* reads = nullptr);

  // Notes the feedback of a round, if there is one, and the tokens it committed. Drafters hear of it when one is queried.
  void note(const DraftTree* tree, const HeadView* rows, Span<const int32_t> tokens);
  // Tells drafters all of it now.
  void tell();
  // Notes seconds that a drafter took to learn while nobody here had called it.
  void learned(size_t at, double seconds) { tally_.by_drafter[at].learn_s += seconds; }

 private:
  bool ask(const Query& query, DraftAnswer* answer) override;
  double now() { return clock_ ? clock_->now() : 0.0; }
  Control& control();
  RoundTimes times(double verified, double seconds, bool timed, const PassReads* reads);
  void foresee(size_t committed, int fed, double pass_cost);
  void filtered(DraftAnswer* answer);
  double price(double seconds, int tokens = 1) const { return costs_ ? costs_->price(seconds, tokens) : seconds; }
  Status tell_one(Drafter* drafter, Effort* effort);
  void failed(size_t at, const Status& why);
  void find_taps();
  Span<const float> tapped(const HiddenStates& states, Span<const int> wanted);

  Drafters drafters_;
  std::vector<char> here_;
  const int control_limit_;
  int limit_;
  Costs* costs_;
  Clock* clock_;
  Notice* notice_;
  CostKeeper* keeper_;
  std::unique_ptr<Control> control_;  // made for the first sequence: before it drafters may be trusted
  Controller* controller_ = nullptr;  // the same, where there are costs
  double kept_drift_ = 0.0;
  PendingFeedback pending_;
  Tally tally_;
  std::vector<int> taps_;
  std::vector<float> tapped_;

  // The round under way.
  Round* round_ = nullptr;          // none: undrafted
  const DraftTree* tree_ = nullptr;
  DraftTree certain_;
  AnswerFilter* filter_ = nullptr;
  std::vector<int> kept_;
  DraftTree led_;
  bool drafts_ = false;             // whether drafters may be queried; if not, the clock is not read either
  double began_ = 0.0, ready_ = 0.0;
};

}  // namespace edgedec::engine
