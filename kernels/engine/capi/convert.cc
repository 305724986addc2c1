#include "engine/capi/convert.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/sampling/check.h"

namespace edgedec::engine {
namespace {

constexpr std::pair<double edgedec_sampling::*, double DrawParams::*> kValues[] = {
    {&edgedec_sampling::temperature, &DrawParams::temperature},
    {&edgedec_sampling::top_p, &DrawParams::top_p},
    {&edgedec_sampling::min_p, &DrawParams::min_p},
    {&edgedec_sampling::top_n_sigma, &DrawParams::top_n_sigma},
    {&edgedec_sampling::typical, &DrawParams::typical},
    {&edgedec_sampling::eta, &DrawParams::eta},
    {&edgedec_sampling::top_h, &DrawParams::top_h},
    {&edgedec_sampling::edt, &DrawParams::edt},
    {&edgedec_sampling::mirostat, &DrawParams::mirostat},
    {&edgedec_sampling::mirostat_eta, &DrawParams::mirostat_eta},
    {&edgedec_sampling::repetition_penalty, &DrawParams::repetition_penalty},
    {&edgedec_sampling::frequency_penalty, &DrawParams::frequency_penalty},
    {&edgedec_sampling::presence_penalty, &DrawParams::presence_penalty},
};

// Copies a text with the zero byte behind it; a character that is cut leaves none of its bytes.
template <size_t N>
void copy_text(std::string_view text, char (&room)[N]) {
  size_t size = std::min(text.size(), N - 1);
  if (size < text.size())
    while (size && (text[size] & 0xC0) == 0x80) --size;
  std::memcpy(room, text.data(), size);
  room[size] = 0;
}

}  // namespace

Status params_of(const edgedec_sampling& sampling, DrawParams* params) {
  if (sampling.size < sizeof(edgedec_sampling))
    return {Code::kUsage, "the sampling values have no size", "call edgedec_sampling_init first"};
  if (sampling.bias_count && (!sampling.bias_tokens || !sampling.bias_values))
    return {Code::kUsage, "the logit bias has no tokens or no values", "hand in both"};
  *params = {};
  for (const auto& [from, to] : kValues) params->*to = sampling.*from;
  params->top_k = sampling.top_k;
  params->seed = sampling.seed;
  for (uint32_t i = 0; i < sampling.bias_count; ++i)
    params->logit_bias.emplace_back(sampling.bias_tokens[i], sampling.bias_values[i]);
  return check_params(params);
}

void write_params(const DrawParams& params, edgedec_sampling* sampling) {
  edgedec_sampling_init(sampling);
  for (const auto& [to, from] : kValues) sampling->*to = params.*from;
  sampling->top_k = params.top_k;
}

edgedec_code told(const Status& status, edgedec_status* out) {
  if (out) {
    out->code = static_cast<int32_t>(status.code());
    copy_text(status.message(), out->message);
    copy_text(status.hint(), out->hint);
  }
  return static_cast<edgedec_code>(status.code());
}

}  // namespace edgedec::engine
