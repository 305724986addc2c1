#include "core/api/marshal.h"
#include "core/sampling/check.h"
#include "core/sampling/needs.h"
#include "core/sampling/noise.h"
#include "core/sampling/portable.h"
#include "core/sampling/temperature.h"

#include <algorithm>
#include <string>

namespace edgedec::engine::api {
namespace {

thread_local std::string error;

}  // namespace

int failed(const Status& status) {
  if (status.ok()) return 0;
  error = status.message() + "\n" + status.hint();
  return -static_cast<int>(status.code());
}

Status read(const edgedec_core_params& given, DrawParams* params) {
  DrawParams& p = *params;
  p.temperature = given.temperature;
  p.top_k = given.top_k;
  p.top_p = given.top_p;
  p.min_p = given.min_p;
  p.top_n_sigma = given.top_n_sigma;
  p.typical = given.typical;
  p.eta = given.eta;
  p.top_h = given.top_h;
  p.edt = given.edt;
  p.mirostat = given.mirostat;
  p.mirostat_eta = given.mirostat_eta;
  p.repetition_penalty = given.repetition_penalty;
  p.frequency_penalty = given.frequency_penalty;
  p.presence_penalty = given.presence_penalty;
  p.seed = given.seed;
  for (size_t at = 0; at < size(given.biases); ++at) p.logit_bias.emplace_back(given.bias_ids[at], given.bias_values[at]);
  return check_params(params);
}

HeadView view(const edgedec_core_head& head) {
  HeadView found;
  found.rows = size(head.rows);
  found.k = size(head.k);
  found.vocabulary = size(head.vocabulary);
  found.values = head.values;
  found.ids = head.ids;
  found.logsumexp = head.logsumexp;
  found.entropy = head.entropy;
  found.logits = head.logits;
  found.temperature = head.temperature;
  return found;
}

}  // namespace edgedec::engine::api

using namespace edgedec::engine;

const char* edgedec_core_error() { return api::error.c_str(); }

int edgedec_core_check(const edgedec_core_params* params) {
  DrawParams read;
  return api::failed(api::read(*params, &read));
}

void edgedec_core_needs(const edgedec_core_params* params, int64_t head_k, int at_one, int masked, double* needs) {
  DrawParams p;
  static_cast<void>(api::failed(api::read(*params, &p)));
  const Wants wants = {at_one != 0, masked != 0};
  needs[0] = needs_logits(p, api::size(head_k), wants);
  needs[1] = head_temperature(p);
  needs[2] = static_cast<double>(drawing_bytes(p, api::size(head_k), wants));
}

int edgedec_core_at_one(const edgedec_core_head* head, int64_t row, int32_t token, int want_token, int want_entropy,
                        double* out) {
  const HeadView rows = api::view(*head);
  const size_t at = api::size(row);
  if (at >= rows.rows) return api::failed({Code::kUsage, "the pass has no such row"});
  if (want_entropy) {
    if (const int code = api::failed(entropy_at_one(rows, at, &out[2]))) return code;
    out[2] /= kLn2;
  }
  if (!want_token) return 0;
  if (const int code = api::failed(log_total_at_one(rows, at, &out[1]))) return code;
  const int32_t *ids = rows.ids + at * rows.k, *end = ids + rows.k, *listed = std::find(ids, end, token);
  if (listed != end) {
    out[0] = static_cast<double>(rows.values[at * rows.k + static_cast<size_t>(listed - ids)]) - out[1];
    return 0;
  }
  if (!rows.logits || token < 0 || static_cast<size_t>(token) >= rows.vocabulary)
    return api::failed({Code::kBackend, "the probability of a token outside the head's list needs whole logits rows, and "
                                        "the pass returned none"});
  out[0] = static_cast<double>(rows.row_of_logits(at)[token]) - out[1];
  return 0;
}

void edgedec_core_numbers(int which, const double* x, int64_t count, uint64_t seed, int64_t position, double* out) {
  const Noise noise(seed, position);
  const size_t size = api::size(count);
  for (size_t at = 0; at < size; ++at) {
    const auto id = static_cast<int64_t>(which == 2 || which == 3 ? x[at] : 0.0);
    out[at] = which == 0   ? portable_exp(x[at])
              : which == 1 ? portable_log(x[at])
              : which == 2 ? noise.uniform(id)
              : which == 3 ? noise.exponential(id)
                           : x[at];
  }
  if (which == 4) portable_exp(Span<double>(out, size));
}
