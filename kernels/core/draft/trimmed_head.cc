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

bool KeptIds::lacks(int32_t token) const { return !std::binary_search(all_.begin(), all_.end(), int64_t{token}); }

void KeptIds::begin() {
  if (shared_ || all_.size() == chosen_.size()) return;
  all_ = chosen_;
  ++version_;
}

void KeptIds::add(std::vector<int64_t>* tokens) {
  std::sort(tokens->begin(), tokens->end());
  tokens->erase(std::unique(tokens->begin(), tokens->end()), tokens->end());
  if (all_.size() + tokens->size() > most()) {
    all_ = chosen_;
    tokens->resize(std::min(tokens->size(), kMostAdded));
  }
  all_.reserve(most());
  const auto before = static_cast<std::ptrdiff_t>(all_.size());
  all_.insert(all_.end(), tokens->begin(), tokens->end());
  std::inplace_merge(all_.begin(), all_.begin() + before, all_.end());
  ++version_;
}

size_t KeptIds::most() const { return chosen_.size() + kMostAdded; }

size_t KeptIds::nbytes() const { return (chosen_.size() + most()) * sizeof(int64_t); }

std::shared_ptr<TrimmedHead> TrimmedHead::again(bool shared) const {
  return std::make_shared<TrimmedHead>(std::make_shared<KeptIds>(kept_->chosen(), shared), bound_, saved_);
}

void TrimmedHead::begin() {
  read_ = kUnread;
  kept_->begin();
}

void TrimmedHead::follow(Span<const int32_t> text) {
  const bool begins = read_ == kUnread;
  const size_t from = begins ? text.size() - std::min(text.size(), kReach) : read_;
  outside_.clear();
  for (int32_t token : text.from(from)) {
    const bool missed = kept_->lacks(token);
    if (missed) outside_.push_back(token);
    if (begins) continue;
    rate_ += (static_cast<double>(missed) - rate_) / kSpanTokens;
    full_ = rate_ > (full_ ? bound_ * kBack : bound_);
  }
  read_ = text.size();
  if (!outside_.empty()) kept_->add(&outside_);
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
