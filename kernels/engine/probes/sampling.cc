// Functions that tests of sampling/ call.
#include <cstdio>
#include <string>

#include "common/capi.h"
#include "core/sampling/check.h"
#include "core/sampling/draw.h"
#include "core/sampling/mirostat.h"
#include "core/sampling/needs.h"
#include "core/sampling/noise.h"
#include "core/sampling/portable.h"

using namespace edgedec::engine;

namespace {

constexpr size_t kMessage = 512;
DrawScratch scratch;  // kept from call to call, as the decode loop keeps it

int said(const Status& status, char* message) {
  std::snprintf(message, kMessage, "%s\n%s", status.message().c_str(), status.hint().c_str());
  return static_cast<int>(status.code());
}

// 14 values in the order of DrawParams, then pairs of the bias.
DrawParams params_of(const double* settings, int64_t top_k, uint64_t seed, const int32_t* bias_ids, const double* bias,
                     size_t biases) {
  DrawParams p;
  p.temperature = settings[0];
  p.top_k = top_k;
  p.seed = seed;
  double* rest[] = {&p.top_p, &p.min_p, &p.top_n_sigma, &p.typical, &p.eta, &p.top_h, &p.edt, &p.mirostat,
                    &p.mirostat_eta, &p.repetition_penalty, &p.frequency_penalty, &p.presence_penalty};
  for (size_t at = 0; at < sizeof rest / sizeof *rest; ++at) *rest[at] = settings[at + 1];
  for (size_t at = 0; at < biases; ++at) p.logit_bias.emplace_back(bias_ids[at], bias[at]);
  return p;
}

}  // namespace

// Draws. sizes: rows, k, vocabulary, whether there are logits, row, position, tokens before, tokens of them that the
// reply said, tokens that may be taken back, biases, top-k, seed, whether there is a bound. settings: as params_of reads
// them, then the temperature of the sums and the bound. sums: logsumexp, then entropy, of each row.
// out: token; what survives, its shares and their number (-1: unknown); the bound after; a message and a hint.
EDGEDEC_EXPORT int edgedec_probe_draw(const int64_t* sizes, const double* settings, const float* values,
                                      const int32_t* ids, const float* sums, const float* logits,
                                      const int32_t* history, const int32_t* bias_ids, const double* bias,
                                      int32_t* token, int32_t* kept, double* shares, int64_t* count, double* bound,
                                      char* message) {
  DrawParams params = params_of(settings, sizes[10], static_cast<uint64_t>(sizes[11]), bias_ids, bias, sizes[9]);
  Status status = check_params(&params);
  if (!status.ok()) return said(status, message);
  HeadRows rows;
  rows.rows = sizes[0];
  rows.k = sizes[1];
  rows.vocabulary = sizes[2];
  rows.values.assign(values, values + rows.rows * rows.k);
  rows.ids.assign(ids, ids + rows.rows * rows.k);
  rows.logsumexp.assign(sums, sums + rows.rows);
  rows.entropy.assign(sums + rows.rows, sums + 2 * rows.rows);
  if (sizes[3]) rows.logits.assign(logits, logits + rows.rows * rows.vocabulary);
  rows.temperature = settings[13];
  const size_t row = sizes[4], before = sizes[6], behind = sizes[8];
  std::optional<double> given;
  if (sizes[12]) given = settings[14];
  const DrawHistory committed(params, {history, before}, sizes[7], given);
  const DrawHistory seen = committed.after({history + before, behind}, committed.bound());
  *count = -1;
  status = draw(rows, row, params, sizes[5], seen, &scratch, token);
  if (!status.ok() || params.uncut() || params.greedy()) return said(status, message);
  Row looked(rows, row, params, seen, &scratch);
  status = looked.begin();
  if (!status.ok()) return said(status, message);
  if (!survivors(looked, params, &scratch, &scratch.kept)) return said(Status(), message);  // the token alone is sure
  *count = static_cast<int64_t>(scratch.kept.size());
  double total = 0.0, highest = scratch.kept.values[0];
  for (size_t at = 0; at < scratch.kept.size(); ++at) {
    kept[at] = scratch.kept.ids[at];
    shares[at] = portable_exp((scratch.kept.values[at] - highest) / looked.temperature());
    total += shares[at];
  }
  for (int64_t at = 0; at < *count; ++at) shares[at] /= total;
  if (params.mirostat != 0.0) status = bound_after(rows, row, params, *token, seen, &scratch, bound);
  return said(status, message);
}

// Bytes that the lists of all draws so far hold; `clear` gives them back.
EDGEDEC_EXPORT int edgedec_probe_drawing_bytes(int clear) {
  if (clear) scratch = DrawScratch();
  return static_cast<int>(scratch.bytes());
}

// Whole rows needed or not, the temperature of the sums, bytes per entry of a row. sizes and settings as for a draw.
EDGEDEC_EXPORT int edgedec_probe_draw_needs(const int64_t* sizes, const double* settings, const int32_t* bias_ids,
                                            const double* bias, int logprobs, double* out) {
  const DrawParams params = params_of(settings, sizes[10], 0, bias_ids, bias, sizes[9]);
  const auto k = static_cast<size_t>(sizes[1]);
  out[0] = needs_logits(params, k, logprobs);
  out[1] = head_temperature(params);
  out[2] = static_cast<double>(drawing_bytes(params, k));
  return 0;
}

// Puts exp, log, uniform or exponential noise, or exp all at once, of numbers into `out`. key: seed and position.
EDGEDEC_EXPORT int edgedec_probe_numbers(int which, const double* x, size_t count, const uint64_t* key, double* out) {
  const Noise noise(key[0], static_cast<int64_t>(key[1]));
  for (size_t at = 0; at < count; ++at) {
    const auto id = static_cast<int64_t>(which == 2 || which == 3 ? x[at] : 0.0);
    out[at] = which == 0 ? portable_exp(x[at]) : which == 1 ? portable_log(x[at]) : which == 2 ? noise.uniform(id)
                                                                                               : noise.exponential(id);
  }
  if (which == 4) {
    for (size_t at = 0; at < count; ++at) out[at] = x[at];
    portable_exp(Span<double>(out, count));
  }
  return 0;
}
