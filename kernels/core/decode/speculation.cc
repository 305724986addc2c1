#include "core/decode/speculation.h"

#include <algorithm>
#include <cmath>

#include "core/control/uncontrolled.h"

namespace edgedec::engine {
namespace {

constexpr double kDrift = 0.15;  // relative change of a cost since it was last kept that makes it worth keeping again
const DraftTree kEmpty;

}  // namespace

Speculation::Speculation(Drafters drafters, const Setting& setting)
    : drafters_(std::move(drafters)), here_(drafters_.size(), true), control_limit_(setting.limit), limit_(setting.limit),
      costs_(setting.costs), clock_(setting.clock), notice_(setting.notice), keeper_(setting.keeper),
      tally_(drafters_.size()) {
  find_taps();
}

Control& Speculation::control() {
  if (control_) return *control_;
  if (!costs_) {
    control_ = std::make_unique<Uncontrolled>(drafters_.size());
  } else {
    std::vector<DrafterTraits> traits(drafters_.size());
    for (size_t at = 0; at < traits.size(); ++at) traits[at] = {drafters_[at]->peeks(), drafters_[at]->pretrained};
    auto made = std::make_unique<Controller>(*costs_, Span<const DrafterTraits>(traits), control_limit_);
    controller_ = made.get();
    control_ = std::move(made);
  }
  for (size_t at = 0; at < here_.size(); ++at)
    if (!here_[at]) control_->drop(static_cast<Source>(at));
  return *control_;
}

Span<const Acceptance::Judged> Speculation::judged(Source source) {
  control();
  return controller_ ? controller_->measured().acceptance.judged(source) : Span<const Acceptance::Judged>();
}

void Speculation::begin(Span<const int32_t> tokens, size_t kept, Span<const int32_t> stop_ids, const DrawParams* params) {
  tell();
  control().begin(stop_ids);
  for (size_t at = 0; at < drafters_.size(); ++at) {
    if (!here_[at]) continue;
    if (params) drafters_[at]->sampled(*params);
    if (const Status done = drafters_[at]->begin(tokens, kept); !done.ok()) failed(at, done);
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

const DraftTree& Speculation::draft(int room, const DraftTree& certain, AnswerFilter* filter) {
  room = std::min(limit_, room);
  round_ = &control().round(room);
  drafts_ = !round_->resting();
  tree_ = &kEmpty;
  if (drafts_) {
    filter_ = filter;
    began_ = now();
    tree_ = &round_->draft(*this, certain);
    ready_ = now();
    filter_ = nullptr;
  } else if (!certain.empty()) {
    certain_ = certain;
    round_ = nullptr;  // what such a round takes says nothing of plain ones
    tree_ = &certain_;
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

void Speculation::find_taps() {
  taps_.clear();
  for (size_t at = 0; at < drafters_.size(); ++at)
    if (here_[at]) taps_.insert(taps_.end(), drafters_[at]->taps().begin(), drafters_[at]->taps().end());
  std::sort(taps_.begin(), taps_.end());
  taps_.erase(std::unique(taps_.begin(), taps_.end()), taps_.end());
}

void Speculation::read(const HiddenStates& states) {
  for (size_t at = 0; at < drafters_.size(); ++at) {
    if (!here_[at] || drafters_[at]->taps().empty()) continue;
    const double began = now();
    const Span<const float> rows = tapped(states, drafters_[at]->taps());
    if (const Status done = drafters_[at]->read(states.start, rows); !done.ok()) failed(at, done);
    else tally_.by_drafter[at].learn_s += now() - began;
  }
}

// The outputs of the layers `wanted` alone, in their order.
Span<const float> Speculation::tapped(const HiddenStates& states, Span<const int> wanted) {
  if (std::equal(wanted.begin(), wanted.end(), states.taps.begin(), states.taps.end())) return states.rows;
  const size_t width = states.rows.size() / std::max<size_t>(states.tokens * states.taps.size(), 1);
  tapped_.clear();
  for (size_t token = 0; token < states.tokens; ++token)
    for (int tap : wanted) {
      const auto place = static_cast<size_t>(std::find(states.taps.begin(), states.taps.end(), tap) - states.taps.begin());
      const float* row = states.rows.data() + (token * states.taps.size() + place) * width;
      tapped_.insert(tapped_.end(), row, row + width);
    }
  return tapped_;
}

const DraftTree& Speculation::undrafted() {
  round_ = nullptr;
  drafts_ = false;
  tree_ = &kEmpty;
  return *tree_;
}

bool Speculation::wants_rows() const {
  if (!round_ || !round_->unprofitable()) return true;
  for (size_t at = 0; at < drafters_.size(); ++at)
    if (here_[at] && drafters_[at]->wants_every_round()) return true;
  return false;
}

void Speculation::settle(const HeadView& rows, const Verdict& verdict, double seconds, bool timed, const PassReads* reads) {
  const double verified = drafts_ ? now() : 0.0;
  tally_.add(*tree_, verdict.path, verdict.tokens.size(), timed ? seconds : 0.0);
  const bool wanted = wants_rows();
  note(wanted ? tree_ : nullptr, wanted ? &rows : nullptr, verdict.tokens);
  if (!round_) return;
  foresee(verdict.tokens.size(), 1 + static_cast<int>(tree_->size()), round_->pass_s());
  round_->settle(verdict.tokens, times(verified, seconds, timed, reads));
  round_ = nullptr;
}

// The times of the round. Drafts answer for the reads that they caused; expectations are learned apart.
RoundTimes Speculation::times(double verified, double seconds, bool timed, const PassReads* reads) {
  const int fed = 1 + static_cast<int>(tree_->size());
  RoundTimes times;
  if (timed) {
    times.passing = costs_ ? price(costs_->expected(fed, seconds, reads), fed) : seconds;
    times.luck = price(seconds, fed) - *times.passing;
  }
  if (!drafts_) return times;
  const double drafting = ready_ - began_ + now() - verified;
  tally_.draft_s += drafting;
  times.drafting = price(drafting);
  times.verifying = price(std::max(verified - ready_ - (timed ? seconds : 0.0), 0.0));
  return times;
}

bool Speculation::ask(const Query& query, DraftAnswer* answer) {
  tell();
  const auto at = static_cast<size_t>(query.source);
  if (!here_[at]) return false;
  const DraftWork before = drafters_[at]->work();
  const double began = now();
  if (const Status done = drafters_[at]->propose(query.limit, query.floor, query.source, &answer->tree); !done.ok()) {
    failed(at, done);
    return false;
  }
  const double seconds = now() - began;
  answer->seconds = price(seconds);
  answer->peeked = drafters_[at]->peeked();
  Effort& effort = tally_.by_drafter[at];
  ++effort.queries;
  effort.proposed += static_cast<int64_t>(answer->tree.size());
  effort.draft_s += seconds;
  const DraftWork after = drafters_[at]->work();
  effort.bytes_read += after.bytes_read - before.bytes_read;
  effort.passes += after.passes - before.passes;
  effort.table_bytes += after.table_bytes - before.table_bytes;
  if (filter_) filtered(answer);
  return true;
}

// Leaves the permitted part of an answer. Tokens of the pass that the query computed parts of may go with it.
void Speculation::filtered(DraftAnswer* answer) {
  kept_.clear();
  filter_->permitted(answer->tree, &kept_);
  if (kept_.size() == answer->tree.size()) return;
  const std::vector<int32_t> before = answer->tree.tokens;
  answer->tree.keep(kept_);
  int node = kRoot, count = 1;
  while (count < answer->peeked) {
    node = answer->tree.child(node, before[static_cast<size_t>(count - 1)]);
    if (node == kNone) break;
    ++count;
  }
  answer->peeked = std::min(count, answer->peeked);
}

// Adds a round to the forecast of time, which commits tokens in a pass over `fed` of this cost.
void Speculation::foresee(size_t committed, int fed, double pass_cost) {
  if (!costs_ || costs_->level_is_old()) return;
  tally_.forecast.add(committed, pass_cost / price(1.0, fed), costs_->plain() / price(1.0));
}

void Speculation::note(const DraftTree* tree, const HeadView* rows, Span<const int32_t> tokens) {
  pending_.add(tree, rows, tokens);
  if (pending_.full()) tell();
}

void Speculation::tell() {
  if (pending_.empty()) return;
  for (size_t at = 0; at < drafters_.size(); ++at)
    if (here_[at])
      if (const Status done = tell_one(drafters_[at].get(), &tally_.by_drafter[at]); !done.ok()) failed(at, done);
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

void Speculation::failed(size_t at, const Status& why) {
  if (drafters_[at]->interrupted()) return;
  drop(at);
  if (notice_) notice_->tell(std::string("drafter ") + drafters_[at]->name() + " failed and is off: " + why.message());
}

void Speculation::drop(size_t at) {
  here_[at] = false;
  find_taps();
  if (control_) control_->drop(static_cast<Source>(at));
}

}  // namespace edgedec::engine
