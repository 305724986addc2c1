#include "core/sampling/narrowing.h"

#include <algorithm>
#include <cmath>

#include "core/sampling/portable.h"
#include "core/sampling/sort.h"
#include "core/sampling/warpers.h"

namespace edgedec::engine {

bool Narrowing::narrow(Row* row, double temperature, Candidates* left) {
  const bool filtered = filtered_;
  bool told = true;
  if (told && params_.typical < 1.0) told = step(row, left, temperature, &Narrowing::typical);
  if (told && params_.eta != 0.0) told = step(row, left, temperature, &Narrowing::eta);
  if (told && params_.top_h < 1.0) told = step(row, left, temperature, &Narrowing::top_h);
  if (told && mirostat_) told = step(row, left, temperature, &Narrowing::mirostat);
  filtered_ = filtered;  // a longer list may follow
  return told;
}

bool Narrowing::step(Row* row, Candidates* left, double temperature, bool (Narrowing::*cut)(Candidates*)) {
  if (!share(row, *left, temperature) || !(this->*cut)(left)) return false;
  left->complete = filtered_ = true;
  return true;
}

// Makes exponents (logit - highest) / T and weights exp(exponent) of the list; whether the sums can be had.
bool Narrowing::share(Row* row, const Candidates& left, double temperature) {
  const double highest = left.values[0];
  scratch_.scaled.resize(left.size());
  for (size_t at = 0; at < left.size(); ++at) scratch_.scaled[at] = (left.values[at] - highest) / temperature;
  scratch_.weights.assign(scratch_.scaled.begin(), scratch_.scaled.end());
  portable_exp(Span<double>(scratch_.weights));
  if (row) bound_ = row->bound();
  complete_ = filtered_ || left.complete;
  entropy_known_ = !filtered_;
  if (filtered_) {
    total_ = total_of(scratch_.weights);
    return true;
  }
  if (!whole_known_) whole_known_ = row->total(highest, &whole_total_) && row->entropy(highest, &whole_entropy_);
  total_ = whole_total_;
  entropy_ = whole_entropy_;
  return whole_known_;
}

// Entropy of the distribution in nats.
double Narrowing::entropy() {
  if (entropy_known_) return entropy_;
  double sum = 0.0;
  for (size_t at = 0; at < scratch_.weights.size(); ++at) sum += scratch_.weights[at] * scratch_.scaled[at];
  entropy_known_ = true;
  return entropy_ = portable_log(total_) - sum / total_;
}

// Keeps the first `count`, one at least.
bool Narrowing::keep(Candidates* left, size_t count) {
  if (count == kUnknown) return false;
  left->cut(std::max<size_t>(count, 1));
  return true;
}

// Keeps tokens of a surprise nearest to the entropy until they reach their mass (Meister et al. 2023).
bool Narrowing::typical(Candidates* left) {
  const size_t size = left->size();
  const double highest_surprise = portable_log(total_), middle = entropy();
  std::vector<double>& far = scratch_.far;
  std::vector<int32_t>& order = scratch_.order;
  far.resize(size);
  order.resize(size);
  for (size_t at = 0; at < size; ++at) {
    far[at] = std::abs(highest_surprise - scratch_.scaled[at] - middle);
    order[at] = static_cast<int32_t>(at);
  }
  sort_by(rising, {far, scratch_.selected, order, scratch_.spare});
  double mass = 0.0;
  size_t first = 0;
  while (first < size && !((mass += scratch_.weights[order[first]]) >= params_.typical * total_)) ++first;
  if (first == size) return complete_;
  if (!complete_ && far[first] > highest_surprise - scratch_.scaled[size - 1] - middle)
    return false;  // a token behind the list may be nearer
  for (size_t at = 0; at < size; ++at) far[at] = 0.0;
  for (size_t at = 0; at <= first; ++at) far[order[at]] = 1.0;
  size_t kept = 0;
  for (size_t at = 0; at < size; ++at) {
    if (far[at] == 0.0) continue;
    left->values[kept] = left->values[at];
    left->ids[kept++] = left->ids[at];
  }
  left->cut(kept);
  return true;
}

// Keeps tokens of at least min(eta, sqrt(eta) * exp(-entropy)) (Hewitt et al. 2022).
bool Narrowing::eta(Candidates* left) {
  const double least = std::min(params_.eta, std::sqrt(params_.eta) * portable_exp(-entropy()));
  return keep(left, at_least_count(Span<const double>(scratch_.weights), least * total_, complete_));
}

// Keeps as many of the best as have an entropy of at most this share of all (Potraghloo et al. 2025).
bool Narrowing::top_h(Candidates* left) {
  const double most = params_.top_h * entropy();
  double sum = 0.0, shares = 0.0;
  for (size_t at = 0; at < left->size(); ++at) {
    sum += scratch_.weights[at];
    shares += scratch_.weights[at] * scratch_.scaled[at];
    if (portable_log(sum) - shares / sum > most) return keep(left, at);
  }
  return complete_;
}

// Keeps tokens with a surprise of at most the bound (mirostat 2, Basu et al. 2021).
bool Narrowing::mirostat(Candidates* left) {
  const double least = portable_exp(std::min(-bound_ * kLn2, 0.0)) * total_;
  return keep(left, at_least_count(Span<const double>(scratch_.weights), least, complete_));
}

}  // namespace edgedec::engine
