#include "core/decode/speculation.h"

#include <algorithm>
#include <cmath>

#include "core/control/controller.h"
#include "core/control/uncontrolled.h"

namespace edgedec::engine {
namespace {

constexpr double kDrift = 0.15;  // relative change of a cost since it was last kept that makes it worth keeping again
const DraftTree kEmpty;

}  // namespace

Speculation::Speculation(Drafters drafters, const Setting& setting)
    : drafters_(std::move(drafters)), here_(drafters_.size(), true), limit_(setting.limit), costs_(setting.costs),
      clock_(setting.clock), notice_(setting.notice), keeper_(setting.keeper), tally_(drafters_.size()) {
  if (!costs_) {
    control_ = std::make_unique<Uncontrolled>(drafters_.size());
    return;
  }
  std::vector<DrafterTraits> traits(drafters_.size());
  for (size_t at = 0; at < traits.size(); ++at) traits[at] = {drafters_[at]->peeks(), drafters_[at]->pretrained};
  control_ = std::make_unique<Controller>(*costs_, Span<const DrafterTraits>(traits), limit_);
}

void Speculation::begin(Span<const int32_t> tokens, size_t kept, Span<const int32_t> stop_ids, const DrawParams* params) {
  tell();
  control_->begin(stop_ids);
  for (size_t at = 0; at < drafters_.size(); ++at) {
    if (!here_[at]) continue;
    if (params) drafters_[at]->sampled(*params);
    if (const Status done = drafters_[at]->begin(tokens, kept); !done.ok()) drop(at, done);
  }
}

void Speculation::end() {
  tell();
  if (!costs_ || !keeper_) return;
  const double drift = costs_->drift();
  if (std::fabs(drift - kept_drift_) <= kDrift) return;
  kept_drift_ = drift;
  keeper_->keep(costs_->measured());
}

const DraftTree& Speculation::draft(int room) {
  room = std::min(limit_, room);
  round_ = &control_->round(room);
  drafts_ = !round_->resting();
  tree_ = &kEmpty;
  if (drafts_) {
    began_ = now();
    tree_ = &round_->draft(*this);
    ready_ = now();
  }
  return *tree_;
}

const DraftTree& Speculation::lead(Span<const int32_t> tokens) {
  if (tokens.empty()) return *tree_;
  led_ = *tree_;
  led_.lead(tokens);
  tree_ = &led_;
  return led_;
}

bool Speculation::reads_hidden() const {
  for (size_t at = 0; at < drafters_.size(); ++at)
    if (here_[at] && drafters_[at]->reads_hidden()) return true;
  return false;
}

void Speculation::read(int64_t start, Span<const float> hidden) {
  for (size_t at = 0; at < drafters_.size(); ++at) {
    if (!here_[at] || !drafters_[at]->reads_hidden()) continue;
    const double began = now();
    if (const Status done = drafters_[at]->read(start, hidden); !done.ok()) drop(at, done);
    else tally_.by_drafter[at].learn_s += now() - began;
  }
}

const DraftTree& Speculation::undrafted() {
  round_ = nullptr;
  drafts_ = false;
  tree_ = &kEmpty;
  return *tree_;
}

void Speculation::settle(const HeadRows& rows, const Verdict& verdict, double seconds, bool timed) {
  const double verified = drafts_ ? now() : 0.0;
  tally_.add(*tree_, verdict.path, verdict.tokens.size(), timed ? seconds : 0.0);
  note(!round_ || !round_->unprofitable(), rows, verdict.tokens);
  if (!round_) return;
  foresee(verdict.tokens.size(), round_->pass_s());
  RoundTimes times;
  if (timed) times.passing = seconds;
  if (drafts_) {
    times.drafting = ready_ - began_ + now() - verified;
    tally_.draft_s += times.drafting;
    times.verifying = std::max(verified - ready_ - (timed ? seconds : 0.0), 0.0);
  }
  round_->settle(verdict.tokens, times);
  round_ = nullptr;
}

bool Speculation::ask(const Query& query, DraftAnswer* answer) {
  tell();
  const auto at = static_cast<size_t>(query.source);
  if (!here_[at]) return false;
  const double began = now();
  if (const Status done = drafters_[at]->propose(query.limit, query.floor, query.source, &answer->tree); !done.ok()) {
    drop(at, done);
    return false;
  }
  answer->seconds = now() - began;
  answer->peeked = drafters_[at]->peeked();
  Effort& effort = tally_.by_drafter[at];
  ++effort.queries;
  effort.proposed += static_cast<int64_t>(answer->tree.size());
  effort.draft_s += answer->seconds;
  return true;
}

// Adds a round to the forecast of time, which commits tokens in a pass that takes `pass_s` by its cost.
void Speculation::foresee(size_t committed, double pass_s) {
  if (costs_ && !costs_->level_is_old()) tally_.forecast.add(committed, pass_s, costs_->plain());
}

void Speculation::note(bool wanted, const HeadRows& rows, Span<const int32_t> tokens) {
  pending_.add(wanted ? tree_ : nullptr, wanted ? &rows : nullptr, tokens);
  if (pending_.full()) tell();
}

void Speculation::tell() {
  if (pending_.empty()) return;
  for (size_t at = 0; at < drafters_.size(); ++at)
    if (here_[at])
      if (const Status done = tell_one(drafters_[at].get(), &tally_.by_drafter[at]); !done.ok()) drop(at, done);
  pending_.clear();
}

Status Speculation::tell_one(Drafter* drafter, Effort* effort) {
  const double began = now();
  for (const RoundFeedback& round : pending_.rounds()) {
    if (round.answered) EDGEDEC_TRY(drafter->observe(round.tree, round.rows));
    EDGEDEC_TRY(drafter->commit(round.tokens));
  }
  effort->learn_s += now() - began;
  return {};
}

void Speculation::drop(size_t at, const Status& why) {
  here_[at] = false;
  control_->drop(static_cast<Source>(at));
  if (notice_) notice_->tell(std::string("drafter ") + drafters_[at]->name() + " failed and is off: " + why.message());
}

}  // namespace edgedec::engine
