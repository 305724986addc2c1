#include "core/control/streamed_costs.h"

#include <algorithm>
#include <cmath>

#include "core/calibration.h"

namespace edgedec::engine {
namespace {

constexpr double kBytesPerSecond = 1e9;  // believed of a disk until a read was waited for
constexpr double kFewReads = 0.01;  // share of a token's experts below which reads are luck

}  // namespace

StreamedCosts::StreamedCosts(Costs& curve, const Experts& experts, double resident) : WrappedCosts(curve) {
  const auto token = static_cast<double>(experts.layers * experts.chosen);
  few_ = std::max(kFewReads * token, 1.0);
  reads_ = token * (1.0 - resident);
  more_ = beside_ = reads_ + few_;
  waited_ = kPriorWeight * static_cast<double>(experts.slot_bytes) / kBytesPerSecond;
  waited_for_ = kPriorWeight;
  const double stays = 1.0 - static_cast<double>(experts.chosen) / static_cast<double>(experts.count);
  adds_.push_back(0.0);
  for (int tokens = 1; tokens < curve.longest(); ++tokens) adds_.push_back(adds_.back() + std::pow(stays, tokens));
}

double StreamedCosts::waits(int tokens) const {
  const double ratio = more_ / beside_;
  const auto place = static_cast<size_t>(std::clamp(tokens, 1, longest()) - 1);
  const double reads = reads_ + ratio * (reads_ + few_) * adds_[place];
  return reads * waited_ / waited_for_;
}

double StreamedCosts::expected(int tokens, double seconds, const PassReads* reads) {
  if (!reads || !inside(tokens)) return seconds;
  waited_ = (1.0 - kWeight) * waited_ + reads->waited_s;
  waited_for_ = (1.0 - kWeight) * waited_for_ + reads->missed;
  if (tokens == 1) {
    ++seen_;
    reads_ += std::max(kWeight, 1.0 / static_cast<double>(seen_ + 1)) * (reads->missed - reads_);
    weigh(kKeeping, reads_ + few_);
  } else {
    weigh(1.0 - kWeight, std::max(reads->missed - reads_, 0.0) / adds_[static_cast<size_t>(tokens - 1)]);
  }
  return std::max(seconds - reads->waited_s, 0.0) + waits(tokens);
}

void StreamedCosts::weigh(double keeping, double more) {
  more_ = keeping * more_ + (1.0 - keeping) * more;
  beside_ = keeping * beside_ + (1.0 - keeping) * (reads_ + few_);
}

}  // namespace edgedec::engine
