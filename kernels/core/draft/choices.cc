#include "core/draft/choices.h"

#include <algorithm>
#include <numeric>

#include "core/sampling/narrowing.h"
#include "core/sampling/noise.h"
#include "core/sampling/portable.h"
#include "core/sampling/temperature.h"
#include "core/sampling/warpers.h"

namespace edgedec::engine {
namespace {

constexpr double kLeastNats = -700.0;  // below it a token is taken for impossible

}  // namespace

Status Choices::find(const HeadView& rows, size_t row, const DrawParams& params, int64_t position,
                     const DrawHistory& history, ToTargetId& to_target, std::vector<Choice>* found) {
  found->clear();
  const float* values = rows.values + row * rows.k;
  const int32_t* ids = rows.ids + row * rows.k;
  const float* end = std::find(values, values + rows.k, -kInfinity);  // fewer than k of a trimmed vocabulary
  values_.assign(values, end);
  ids_.assign(ids, ids + (end - values));
  if (params.adjusts()) adjust(params, history, to_target);
  if (ids_.empty()) return {};
  if (params.greedy()) {
    const double logsumexp = static_cast<double>(rows.logsumexp[row]);
    for (size_t at = 0; at < std::min(kFew, ids_.size()); ++at) {
      const double nats = values_[at] - logsumexp;
      found->push_back({ids_[at], nats > kLeastNats ? std::min(portable_exp(nats), 1.0) : 0.0});
    }
    return {};
  }
  double temperature = 0.0;
  EDGEDEC_TRY(temperature_of(params, rows, row, &temperature));
  keyed(params, temperature, position, to_target, found);
  return {};
}

// Applies penalties, and the bias of the target's ids; leaves out what it bans.
void Choices::adjust(const DrawParams& params, const DrawHistory& history, ToTargetId& to_target) {
  const Adjustment adjustment(params, history);
  theirs_ = ids_;
  if (!params.logit_bias.empty()) to_target.to_target_ids(ids_, theirs_.data());
  for (size_t at = 0; at < ids_.size(); ++at) values_[at] = adjustment.one(values_[at], ids_[at], theirs_[at]);
  order_.resize(ids_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
    return values_[a] != values_[b] ? values_[a] > values_[b] : ids_[a] < ids_[b];
  });
  times_.clear();
  places_.clear();
  for (size_t at : order_) {
    if (!(values_[at] > -kInfinity)) break;
    times_.push_back(values_[at]);
    places_.push_back(ids_[at]);
  }
  values_.swap(times_);
  ids_.swap(places_);
}

// Makes the values logarithms of the weights, and the weights of them.
void Choices::weigh(double temperature) {
  const double highest = values_[0];
  for (double& one : values_) one = (one - highest) / temperature;
  weights_ = values_;
  portable_exp(Span<double>(weights_));
}

void Choices::keyed(const DrawParams& params, double temperature, int64_t position, ToTargetId& to_target,
                    std::vector<Choice>* found) {
  weigh(temperature);
  left_.clear();
  for (size_t at = 0, count = survivors(params); at < count; ++at) left_.add(values_[at], static_cast<int32_t>(at));
  left_.complete = true;
  if (params.narrows()) Narrowing(params, true, false, &scratch_).narrow(nullptr, 1.0, &left_);
  times_.clear();
  places_.clear();
  const Noise noise(params.seed, position);
  asked_.clear();
  for (int32_t at : left_.ids) asked_.push_back(ids_[static_cast<size_t>(at)]);
  theirs_.resize(asked_.size());
  to_target.to_target_ids(asked_, theirs_.data());
  size_t known = 0;
  for (size_t left = 0; left < asked_.size(); ++left) {
    const int32_t theirs = theirs_[left], at = left_.ids[left];
    if (theirs < 0) continue;
    places_.push_back(at);
    theirs_[known++] = theirs;
    times_.push_back(noise.exponential(theirs) / weights_[static_cast<size_t>(at)]);
  }
  if (times_.empty()) return;
  order_.resize(times_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
    return times_[a] != times_[b] ? times_[a] < times_[b] : theirs_[a] < theirs_[b];
  });
  surety_.clear();
  for (double time : times_) surety_.push_back(portable_exp(temperature * portable_log(times_[order_[0]] / time)));
  const double total = total_of(surety_);
  for (size_t at = 0; at < std::min(kFew, order_.size()); ++at)
    found->push_back({ids_[static_cast<size_t>(places_[order_[at]])], surety_[order_[at]] / total});
}

// How many of the head's best the warpers leave before those of narrowing. Top-n-sigma would need the whole row and is
// left out, and so is mirostat, whose state is the target's.
size_t Choices::survivors(const DrawParams& params) const {
  const Span<const double> all(weights_);
  size_t count = all.size();
  if (params.top_k != 0) count = static_cast<size_t>(std::min<uint64_t>(static_cast<uint64_t>(params.top_k), count));
  if (params.top_p < 1.0) {
    const Span<const double> left = all.first(count);
    count = top_p_count(left, total_of(left), params.top_p, true);
  }
  return std::max<size_t>(at_least_count(all.first(count), params.min_p, true), 1);
}

}  // namespace edgedec::engine
