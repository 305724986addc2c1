#include "core/control/measurements.h"

#include <algorithm>
#include <cmath>

namespace edgedec::engine {
namespace {

constexpr double kFading = 0.99;         // share of the average rate that remains after one more round
constexpr int64_t kPlainEveryRounds = 128;  // after which one goes without drafts, to measure plain decoding
constexpr double kMostOverhead = 0.05;   // most passes that one token's verification is believed to take

}  // namespace

Measurements::Measurements(Costs& its_costs, Span<const DrafterTraits> its_drafters)
    : costs(its_costs), level(its_costs, *this) {
  tokens_ = passes_ = costs.level_is_old() ? kLevelPasses : 0.0;  // what they commit tells little yet
  for (const DrafterTraits& traits : its_drafters) {
    acceptance.add_drafter();
    drafters.emplace_back();
    drafters.back().traits = traits;
    drafters.back().costly = traits.peeks;
    peeking_ = peeking_ || traits.peeks;
  }
  acceptance.add_drafter();  // the source of certain drafts
}

bool Measurements::any_costly() const {
  return std::any_of(drafters.begin(), drafters.end(), [](const Drafter& one) { return one.here && one.costly; });
}

void Measurements::begin(Span<const int32_t> stops) {
  stop_ids.assign(stops.begin(), stops.end());
  credit.begin();
  for (Drafter& one : drafters) one.fresh = true;
}

double Measurements::rate() const {
  const double per_pass = passes_ != 0.0 ? tokens_ / passes_ : 1.0;
  return std::max(per_pass, 1.0) / costs.plain();
}

bool Measurements::due_plain() const {
  const bool unknown = costs.level_is_old() && peeking_;  // passes behind peeking drafters show no level
  return unknown || since_plain_ >= kPlainEveryRounds || costs.plain_is_unclear();
}

void Measurements::classify(Source source) {
  Drafter& one = of(source);
  one.costly = one.traits.peeks || one.record.costly(costs.plain());
  SharedTrials* trials = costs.trials();
  if (trials && !one.record.unknown()) trials->timed(static_cast<size_t>(source), one.record.times());
}

void Measurements::rested(std::optional<double> passing) {
  since_plain_ = 0;
  const bool sampled = turn % kSampled == 0 || costs.level_is_old();
  if (passing && sampled) level.plain(turn, *passing);
  credit.book(1.0, 1.0);
  count(1.0, 1.0);
  costs.committed(1);
}

double Measurements::charged(double seconds, double usual) {
  long_passes_ = seconds > (1.0 + kUsualSpread) * usual ? long_passes_ + 1 : 0;
  const bool unusual = std::abs(seconds - usual) > kUsualSpread * usual;
  return unusual && long_passes_ != 1 ? seconds : usual;
}

void Measurements::verified(size_t drafted, double seconds) {
  const double most = kMostOverhead * costs.plain() * static_cast<double>(1 + drafted);
  verify_overhead.observe(static_cast<double>(drafted), std::min(seconds, most));
}

void Measurements::count(double tokens, double cost) {
  if (any_costly()) {
    for (Drafter& one : drafters) one.record.gains().fade();
    exploration.round(cost);
    if (SharedTrials* trials = costs.trials()) trials->round(cost);
  }
  tokens_ = kFading * tokens_ + tokens;
  passes_ = kFading * passes_ + cost;
}

bool Measurements::may_explore() {
  const SharedTrials* trials = costs.trials();
  return exploration.allowed() && (!trials || trials->allowed());
}

bool Measurements::seems_cheap(Source source) {
  Drafter& one = of(source);
  SharedTrials* trials = costs.trials();
  if (one.costly || !one.record.unknown() || !trials) return !one.costly;
  CallTimes times;
  const auto answer = trials->may_time(static_cast<size_t>(source), this, &times);
  if (answer == SharedTrials::Answer::kKnown) {
    one.record.know(times);
    one.costly = one.record.costly(costs.plain());
  }
  return answer != SharedTrials::Answer::kNotNow && !one.costly;
}

void Measurements::explored_reading(double passes) {
  explored(passes);
  if (SharedTrials* trials = costs.trials()) trials->lost(passes);
}

void Measurements::rescale(double ratio) {
  for (Drafter& one : drafters) one.record.rescale(ratio);
}

}  // namespace edgedec::engine
