#include "core/sampling/adjustment.h"

#include <algorithm>
#include <limits>

namespace edgedec::engine {

Adjustment::Adjustment(const DrawParams& params, const DrawHistory& history) : params_(params), history_(history) {
  lifts_ = params.repetition_penalty < 1.0 || params.frequency_penalty < 0.0 || params.presence_penalty < 0.0;
  for (const auto& [token, value] : params.logit_bias) {
    bans_ |= value == kBans;
    lifts_ |= value > 0.0;
  }
}

double Adjustment::one(double value, int32_t token, int32_t biased) const {
  const auto& bias = params_.logit_bias;
  const auto found = std::lower_bound(bias.begin(), bias.end(), biased,
                                      [](const auto& pair, int32_t id) { return pair.first < id; });
  if (found != bias.end() && found->first == biased)
    value += found->second == kBans ? -std::numeric_limits<double>::infinity() : found->second;
  if (params_.repetition_penalty != 1.0 && history_.has_occurred(token))
    value = value > 0.0 ? value / params_.repetition_penalty : value * params_.repetition_penalty;
  if (params_.counts())
    if (const int32_t count = history_.said(token))
      value -= count * params_.frequency_penalty + params_.presence_penalty;
  return value;
}

void Adjustment::touched(std::vector<int32_t>* ids) const {
  ids->clear();
  history_.occurred_ids(ids);
  if (params_.logit_bias.empty() && !params_.counts()) return;
  history_.said_ids(ids);
  for (const auto& [token, value] : params_.logit_bias) ids->push_back(token);
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace edgedec::engine
