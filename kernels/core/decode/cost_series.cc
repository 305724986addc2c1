#include "core/decode/cost_series.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

}  // namespace

CostSeries::CostSeries(int64_t capacity, int64_t max_pass, bool streamed) : patience_(streamed ? 4.0 : 20.0) {
  const int64_t most = std::min(capacity, max_pass);
  for (int size = 2; size <= kMostTimed; size *= 2)
    if (size <= most) sizes_.push_back(size);
  ratios_.resize(sizes_.size());
}

int CostSeries::next() const {
  if (!timed_) return 1;
  if (turn() >= kMostRounds) return 0;
  return within() % 2 || sizes_.empty() ? 1 : sizes_[static_cast<size_t>(within()) / 2];
}

void CostSeries::took(double seconds) {
  if (!timed_ || sizes_.empty()) {
    ones_.push_back(seconds);
  } else if (within() % 2 == 0) {
    several_ = seconds;
  } else {
    ratios_[static_cast<size_t>(within()) / 2].push_back(2.0 * several_ / (ones_.back() + seconds));
    ones_.push_back(seconds);
  }
  ++timed_;
}

double CostSeries::part() const {
  const int pairs = (timed_ - 1) / 2, count = static_cast<int>(sizes_.size());
  return ((pairs - 1) / count + static_cast<double>((pairs - 1) % count + 1) / count) / kRounds;
}

Points CostSeries::points() const {
  const double plain = median(ones_);
  Points seconds = {{1, plain}};
  for (size_t at = 0; at < sizes_.size(); ++at) seconds.emplace_back(sizes_[at], plain * median(ratios_[at]));
  return seconds;
}

}  // namespace edgedec::engine
