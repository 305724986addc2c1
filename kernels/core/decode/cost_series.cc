#include "core/decode/cost_series.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

// Both sides of the steps: kernels multiply 8 or 16 tokens at once, by their row, and one more takes a turn more.
constexpr int kSizes[] = {2, 4, 8, 9, kMostTimed};
constexpr int kBetweenOnes = 3;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

}  // namespace

CostSeries::CostSeries(int64_t capacity, int64_t max_pass, bool streamed) : patience_(streamed ? 4.0 : 20.0) {
  const int64_t most = std::min(capacity, max_pass);
  for (const int size : kSizes)
    if (size <= most) sizes_.push_back(size);
  for (size_t at = 0; at < sizes_.size(); ++at) {
    steps_.push_back(sizes_[at]);
    if ((at + 1) % kBetweenOnes == 0 || at + 1 == sizes_.size()) steps_.push_back(1);
  }
  if (steps_.empty()) steps_.push_back(1);
  ratios_.resize(sizes_.size());
}

int CostSeries::next() const {
  if (!timed_) return 1;
  return turn() < kMostRounds ? steps_[static_cast<size_t>(within())] : 0;
}

void CostSeries::took(double seconds) {
  if (next() == 1) {
    end_group(seconds);
    ones_.push_back(seconds);
  } else {
    group_.push_back(seconds);
  }
  ++timed_;
}

// Notes the ratios of a group's times to that of one token, which goes evenly from the latest one to `after`.
void CostSeries::end_group(double after) {
  if (group_.empty()) return;
  const double before = ones_.back();
  double passed = 0.0, total = 0.0;
  for (const double took : group_) total += took;
  for (const double took : group_) {
    const double part = (passed + took / 2.0) / total;
    ratios_[first_++].push_back(took / (before + (after - before) * part));
    passed += took;
  }
  group_.clear();
  ++groups_;
  if (first_ == sizes_.size()) first_ = 0;
}

double CostSeries::part() const {
  const int count = (static_cast<int>(sizes_.size()) + kBetweenOnes - 1) / kBetweenOnes;
  return ((groups_ - 1) / count + static_cast<double>((groups_ - 1) % count + 1) / count) / kRounds;
}

Points CostSeries::points() const {
  const double plain = median(ones_);
  Points seconds = {{1, plain}};
  for (size_t at = 0; at < sizes_.size(); ++at) seconds.emplace_back(sizes_[at], plain * median(ratios_[at]));
  return seconds;
}

}  // namespace edgedec::engine
