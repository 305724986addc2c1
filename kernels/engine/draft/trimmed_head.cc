#include "engine/draft/trimmed_head.h"

#include <algorithm>
#include <cmath>

namespace edgedec::engine {
namespace {

constexpr double kSpanTokens = 64.0;
constexpr double kBack = 0.5;  // share of the bound below which the trimmed head drafts again
constexpr int kSteps = 4;      // a usual chain, for which the bound is computed: its length,
constexpr double kAcceptance = 0.7;  // and how often a token of it is right

}  // namespace

void TrimmedHead::follow(Span<const int32_t> text) {
  if (read_ != kUnread)
    for (int32_t token : text.from(read_)) {
      const double missed = std::binary_search(ids_.begin(), ids_.end(), int64_t{token}) ? 0.0 : 1.0;
      rate_ += (missed - rate_) / kSpanTokens;
      full_ = rate_ > (full_ ? bound_ * kBack : bound_);
    }
  read_ = text.size();
}

double chain_efficiency(double agreement, int length) {
  double sum = 0.0;
  for (int depth = 0; depth <= length; ++depth) sum += std::pow(agreement, depth);
  return sum;
}

double break_even(double step, double trimmed) {
  const double cost = (1.0 + kSteps * trimmed) / (1.0 + kSteps * step);
  const double needed = chain_efficiency(kAcceptance, kSteps) * cost;
  double low = 0.0, high = 1.0;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (chain_efficiency(kAcceptance * (1.0 - middle), kSteps) > needed ? low : high) = middle;
  }
  return low;
}

}  // namespace edgedec::engine
