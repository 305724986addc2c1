#include "core/control/costs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace edgedec::engine {
namespace {

constexpr double kFirstWeight = 0.3;  // of the first time for a number of tokens; it falls with each further one
constexpr int kInterruptedPasses = 2;  // passes in a row, each several times too long, that no longer count as interruptions
constexpr int kFadeEvery = 16;  // plain passes after which the shape fades
constexpr double kUnclear = 0.1;  // movement by passes over several tokens that makes the cost of one unclear
constexpr double kShared = 0.5;  // share of a deviation of a longer pass that moves the whole curve, not its shape
constexpr int kMostTokens = 4096;    // of a pass, in a curve

bool sound(const Points& measured) {
  if (measured.empty() || measured.front().first != 1 || measured.back().first > kMostTokens) return false;
  for (size_t at = 0; at < measured.size(); ++at) {
    const auto& [tokens, seconds] = measured[at];
    if (!std::isfinite(seconds) || seconds <= 0.0 || (at && tokens <= measured[at - 1].first)) return false;
  }
  return true;
}

}  // namespace

double Costs::least_slope(int more) const {
  const double first = plain();
  const int most = std::min(more, longest() - 1);
  double least = std::numeric_limits<double>::infinity();
  for (int count = 1; count <= most; ++count) least = std::min(least, (seconds(1 + count) - first) / count);
  return most > 0 ? std::max(least, 0.0) : 0.0;
}

Status CostCurve::make(Points measured, bool old, CostCurve* curve) {
  std::sort(measured.begin(), measured.end());
  if (!sound(measured)) {
    return {Code::kBadFile, "a cost curve needs positive times from one token on", "measure the costs again"};
  }
  CostCurve made;
  const int longest = measured.back().first;
  for (const auto& point : measured) made.points_.push_back(point.first);
  for (int tokens = 1; tokens <= longest; ++tokens) made.first_.push_back(between(measured, tokens));
  const auto count = static_cast<size_t>(longest);
  for (auto* each : {&made.shape_, &made.bent_, &made.relative_, &made.slopes_}) each->resize(count);
  made.seen_.resize(count);
  made.levels_.reserve(kLevelPasses);
  made.awaited_ = old ? kLevelPasses : 0;
  made.bend();
  *curve = std::move(made);
  return {};
}

size_t CostCurve::place(int tokens) const { return static_cast<size_t>(std::clamp(tokens, 1, longest()) - 1); }

double CostCurve::least_slope(int more) const {
  const int most = std::min(more, longest() - 1);
  return most > 0 ? scale_ * slopes_[static_cast<size_t>(most)] : 0.0;
}

bool CostCurve::observe(int tokens, double seconds, bool plain) {
  if (tokens < 1 || tokens > longest() || !(seconds > 0.0)) return false;
  const double ratio = seconds / this->seconds(tokens);
  if (awaited_) {
    take_level(level_ + std::log(ratio));
    return true;
  }
  int& strange = strange_[tokens == 1 || plain];
  strange = ratio > kOutlier ? strange + 1 : 0;
  if (0 < strange && strange < kInterruptedPasses) return false;
  const auto seen = static_cast<double>(++seen_[place(tokens)]);
  const double weight = std::max(kWeight, kFirstWeight / std::sqrt(seen));
  if (tokens == 1 || plain) {
    see_plain(tokens, std::log(ratio), weight);
  } else {
    see_drafted(tokens, std::log(ratio), weight);
  }
  scale_ = std::exp(level_);
  return true;
}

bool CostCurve::doubt_level() {
  if (awaited_) return true;
  awaited_ = kLevelPasses;
  levels_.clear();
  return doubted_ = true;
}

// Sets the level by a pass that ran at the level `seen`: the median of all so far.
void CostCurve::take_level(double seen) {
  if (doubted_ && levels_.empty() && std::abs(seen - level_) < std::log(1.0 + kUsualSpread)) {
    awaited_ = 0;
    doubted_ = false;
    return;
  }
  levels_.push_back(seen);
  std::sort(levels_.begin(), levels_.end());
  level_ = level_of_plain_ = levels_[levels_.size() / 2];
  scale_ = std::exp(level_);
  --awaited_;
  doubted_ = doubted_ && awaited_ > 0;
}

void CostCurve::see_plain(int tokens, double off, double weight) {
  const double seen = level_ + off, before = level_of_plain_;
  if (std::abs(seen - before) < std::abs(off)) {  // the deviation of longer passes was not the machine
    for (size_t other = place(tokens) + 1; other < shape_.size(); ++other) shape_[other] += level_ - before;
    level_ = before;
    bend();
  }
  level_ += weight * (seen - level_);
  level_of_plain_ = level_;
  if (++plain_seen_ % kFadeEvery == 0) {
    for (size_t other = 1; other < shape_.size(); ++other) shape_[other] *= kKeeping;
    bend();
  }
}

void CostCurve::see_drafted(int tokens, double off, double weight) {
  level_ += kShared * weight * off;
  const double more = (1.0 - kShared) * weight * off;
  for (size_t at = 1; at < shape_.size(); ++at) {
    const double factor = static_cast<double>(at + 1) / static_cast<double>(tokens);
    const double share = 1.0 - std::abs(std::log2(factor));  // what the pass says of another number of tokens
    if (share <= 0.0) continue;
    shape_[at] += share * more;
    bent_[at] = first_[at] * std::exp(shape_[at]);
  }
  rise();
}

// Applies a change of the whole shape.
void CostCurve::bend() {
  for (size_t at = 0; at < first_.size(); ++at) bent_[at] = first_[at] * std::exp(shape_[at]);
  rise();
}

// Costs never fall with the number of tokens.
void CostCurve::rise() {
  double highest = bent_[0];
  for (size_t at = 0; at < bent_.size(); ++at) {
    relative_[at] = highest = std::max(highest, bent_[at]);
    const double slope = at ? (relative_[at] - relative_[0]) / static_cast<double>(at) : 0.0;
    slopes_[at] = at > 1 ? std::min(slopes_[at - 1], slope) : slope;
  }
}

bool CostCurve::plain_is_unclear() const { return doubted_ || std::abs(level_ - level_of_plain_) > kUnclear; }

double CostCurve::drift() const {
  double largest = 0.0, highest = first_[0];
  for (size_t at = 0; at < first_.size(); ++at) {
    highest = std::max(highest, first_[at]);
    largest = std::max(largest, std::abs(scale_ * relative_[at] / highest - 1.0));
  }
  return largest;
}

Points CostCurve::measured() const {
  Points now;
  for (const int tokens : points_) now.emplace_back(tokens, seconds(tokens));
  return now;
}

}  // namespace edgedec::engine
