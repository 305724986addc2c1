#include "core/sampling/check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/format.h"
#include "core/base/json.h"
#include "core/sampling/portable.h"

namespace edgedec::engine {
namespace {

constexpr double kMostBias = 100.0;

// The number as Python writes it.
std::string shown(double value) {
  if (std::isfinite(value)) return real_text(value);
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Status refused(const char* name, const std::string& value, const char* allowed) {
  return {Code::kUsage, std::string(name) + " cannot be " + value, std::string("it must be ") + allowed};
}

Status within(const char* name, double value, bool ok, const char* allowed) {
  return ok ? Status() : refused(name, shown(value), allowed);
}

Status check_bias(std::vector<std::pair<int32_t, double>>* bias) {
  for (const auto& [token, value] : *bias) {
    if (token < 0)
      return {Code::kUsage, "logit bias cannot be for token " + decimal(token), "give the id of a token"};
    if (!(-kMostBias <= value && value <= kMostBias))
      return refused(("logit bias of token " + decimal(token)).c_str(), shown(value), "from -100 to 100");
  }
  const auto earlier = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(bias->begin(), bias->end(), earlier);
  for (size_t at = 1; at < bias->size(); ++at)
    if ((*bias)[at].first == (*bias)[at - 1].first)
      return {Code::kUsage, "logit bias names a token twice", "name each id once"};
  return {};
}

}  // namespace

Status check_params(DrawParams* params) {
  const DrawParams& p = *params;
  EDGEDEC_TRY(within("temperature", p.temperature, 0.0 <= p.temperature && p.temperature < kInfinity, "0 (greedy) or more"));
  if (p.top_k < 0) return refused("top-k", decimal(p.top_k), "0 (off) or a positive integer");
  EDGEDEC_TRY(within("top-p", p.top_p, 0.0 < p.top_p && p.top_p <= 1.0, "above 0 and at most 1 (off)"));
  EDGEDEC_TRY(within("min-p", p.min_p, 0.0 <= p.min_p && p.min_p <= 1.0, "between 0 (off) and 1"));
  EDGEDEC_TRY(within("top-n-sigma", p.top_n_sigma, 0.0 <= p.top_n_sigma && p.top_n_sigma < kInfinity, "0 (off) or more"));
  EDGEDEC_TRY(within("typical", p.typical, 0.0 < p.typical && p.typical <= 1.0, "above 0 and at most 1 (off)"));
  EDGEDEC_TRY(within("eta", p.eta, 0.0 <= p.eta && p.eta < 1.0, "from 0 (off) to below 1"));
  EDGEDEC_TRY(within("top-h", p.top_h, 0.0 < p.top_h && p.top_h <= 1.0, "above 0 and at most 1 (off)"));
  EDGEDEC_TRY(within("mirostat", p.mirostat, 0.0 <= p.mirostat && p.mirostat < kInfinity, "0 (off) or a number of bits"));
  EDGEDEC_TRY(within("mirostat-eta", p.mirostat_eta, 0.0 < p.mirostat_eta && p.mirostat_eta <= 1.0, "above 0 and at most 1"));
  EDGEDEC_TRY(within("edt", p.edt, 0.0 <= p.edt && p.edt < kInfinity, "0 (off) or more"));
  const double penalty = p.repetition_penalty;
  EDGEDEC_TRY(within("repetition penalty", penalty, 0.0 < penalty && penalty < kInfinity, "above 0 (1 is off)"));
  for (const auto& [name, value] : {std::pair<const char*, double>{"frequency penalty", p.frequency_penalty},
                                    {"presence penalty", p.presence_penalty}})
    EDGEDEC_TRY(within(name, value, -2.0 <= value && value <= 2.0, "from -2 to 2 (0 is off)"));
  return check_bias(&params->logit_bias);
}

}  // namespace edgedec::engine
