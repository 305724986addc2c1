#include "core/draft/trimmed_head.h"

#include <algorithm>
#include <cmath>

namespace edgedec::engine {
namespace {

constexpr double kSpanTokens = 64.0;
constexpr double kBack = 0.5;  // share of the bound below which the trimmed head drafts again
constexpr int kChainSteps = 4;      // a usual chain, for which the bound is computed: its length,
constexpr double kAcceptance = 0.7;  // and how often a token of it is right
constexpr double kRare = 0.5;        // how often a token outside is right, as a part of that: rare ones are foreseen less often
constexpr size_t kReach = 256;       // tokens at the end of a text that begins whose ids are kept
constexpr size_t kMostAdded = 1024;  // most ids of the text; where there are more, those of before are forgotten

}  // namespace

TrimmedHead::TrimmedHead(std::vector<int64_t> ids, double bound, double saved)
    : ids_(std::move(ids)), kept_(ids_), bound_(bound), saved_(saved) {}

void TrimmedHead::begin() {
  read_ = kUnread;
  kept_.reserve(ids_.size() + kMostAdded);
  kept_ = ids_;
}

size_t TrimmedHead::nbytes() const { return (2 * ids_.size() + kMostAdded) * sizeof(int64_t); }

void TrimmedHead::follow(Span<const int32_t> text) {
  const bool begins = read_ == kUnread;
  const size_t from = begins ? text.size() - std::min(text.size(), kReach) : read_;
  outside_.clear();
  for (int32_t token : text.from(from)) {
    const bool missed = !std::binary_search(kept_.begin(), kept_.end(), int64_t{token});
    if (missed) outside_.push_back(token);
    if (begins) continue;
    rate_ += (static_cast<double>(missed) - rate_) / kSpanTokens;
    full_ = rate_ > (full_ ? bound_ * kBack : bound_);
  }
  read_ = text.size();
  add();
}

// Keeps the tokens `outside_` too.
void TrimmedHead::add() {
  std::sort(outside_.begin(), outside_.end());
  outside_.erase(std::unique(outside_.begin(), outside_.end()), outside_.end());
  if (kept_.size() + outside_.size() > ids_.size() + kMostAdded) {
    kept_ = ids_;
    outside_.resize(std::min(outside_.size(), kMostAdded));
  }
  const size_t before = kept_.size();
  kept_.insert(kept_.end(), outside_.begin(), outside_.end());
  std::inplace_merge(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(before), kept_.end());
}

double chain_efficiency(double agreement, int length) {
  double sum = 0.0;
  for (int depth = 0; depth <= length; ++depth) sum += std::pow(agreement, depth);
  return sum;
}

double chain_gain(double step, double outside) {
  return chain_efficiency(kAcceptance * (1.0 - outside), kChainSteps) / (1.0 + kChainSteps * step);
}

double break_even(double step, double trimmed) {
  const double needed = chain_gain(step);
  double low = 0.0, high = 1.0;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (chain_gain(trimmed, kRare * middle) > needed ? low : high) = middle;
  }
  return low;
}

}  // namespace edgedec::engine
