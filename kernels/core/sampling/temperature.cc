#include "core/sampling/temperature.h"

#include <algorithm>

#include "core/sampling/portable.h"

namespace edgedec::engine {
namespace {

constexpr double kLnBase = -0x1.c8ff7c79a9a20p-3;  // ln 0.8
constexpr double kLeast = 1e-3;  // temperatures below it draw as this one does

// Entropy in nats at temperature 1, over the whole vocabulary.
Status entropy_at_one(const HeadRows& rows, size_t row, double* entropy) {
  if (rows.temperature == 1.0) {
    *entropy = static_cast<double>(rows.entropy[row]);
    return {};
  }
  if (rows.logits.empty())
    return {Code::kBackend, "the entropy at temperature 1 needs whole logits rows, and the pass returned none"};
  const float* logits = rows.logits.data() + row * rows.vocabulary;
  const double highest = static_cast<double>(*std::max_element(logits, logits + rows.vocabulary));
  double total = 0.0, mean = 0.0;
  for (size_t at = 0; at < rows.vocabulary; ++at) {
    const double scaled = std::max(static_cast<double>(logits[at]) - highest, -700.0);
    const double weight = portable_exp(scaled);
    total += weight;
    mean += weight * scaled;
  }
  *entropy = portable_log(total) - mean / total;
  return {};
}

}  // namespace

Status temperature_of(const DrawParams& params, const HeadRows& rows, size_t row, double* temperature) {
  *temperature = params.temperature;
  if (params.edt == 0.0 || params.greedy()) return {};
  double entropy = 0.0;
  EDGEDEC_TRY(entropy_at_one(rows, row, &entropy));
  entropy = std::max(entropy, 1e-9);
  *temperature = std::max(params.temperature * portable_exp(params.edt / entropy * kLnBase), kLeast);
  return {};
}

}  // namespace edgedec::engine
