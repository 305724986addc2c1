#include "core/sampling/temperature.h"

#include <algorithm>
#include <string>

#include "core/sampling/portable.h"

namespace edgedec::engine {
namespace {

constexpr double kLnBase = -0x1.c8ff7c79a9a20p-3;  // ln 0.8
constexpr double kLeast = 1e-3;  // temperatures below it draw as this one does
constexpr double kLeastExponent = -700.0;  // smaller weights do not change a sum

// Sums of w = exp(logit - highest) and of w * (logit - highest) over a row of logits.
struct Sums {
  double highest, total, mean;
};

Status sums_at_one(const HeadView& rows, size_t row, const char* what, Sums* sums) {
  if (!rows.logits)
    return {Code::kBackend, std::string(what) + " at temperature 1 needs whole logits rows, and the pass returned none"};
  const float* logits = rows.row_of_logits(row);
  const double highest = static_cast<double>(*std::max_element(logits, logits + rows.vocabulary));
  *sums = {highest, 0.0, 0.0};
  for (size_t at = 0; at < rows.vocabulary; ++at) {
    const double scaled = std::max(static_cast<double>(logits[at]) - highest, kLeastExponent);
    const double weight = portable_exp(scaled);
    sums->total += weight;
    sums->mean += weight * scaled;
  }
  return {};
}

}  // namespace

Status entropy_at_one(const HeadView& rows, size_t row, double* entropy) {
  if (rows.temperature == 1.0) {
    *entropy = static_cast<double>(rows.entropy[row]);
    return {};
  }
  Sums sums;
  EDGEDEC_TRY(sums_at_one(rows, row, "the entropy", &sums));
  *entropy = portable_log(sums.total) - sums.mean / sums.total;
  return {};
}

Status log_total_at_one(const HeadView& rows, size_t row, double* total) {
  if (rows.temperature == 1.0) {
    *total = static_cast<double>(rows.logsumexp[row]);
    return {};
  }
  Sums sums;
  EDGEDEC_TRY(sums_at_one(rows, row, "a probability", &sums));
  *total = sums.highest + portable_log(sums.total);
  return {};
}

Status temperature_of(const DrawParams& params, const HeadView& rows, size_t row, double* temperature) {
  *temperature = params.temperature;
  if (params.edt == 0.0 || params.greedy()) return {};
  double entropy = 0.0;
  EDGEDEC_TRY(entropy_at_one(rows, row, &entropy));
  entropy = std::max(entropy, 1e-9);
  *temperature = std::max(params.temperature * portable_exp(params.edt / entropy * kLnBase), kLeast);
  return {};
}

}  // namespace edgedec::engine
