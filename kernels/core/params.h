// Settings of the sampler: edgedec/sampling/params.py, which explains each. Each default is "off". They apply in this order:
// logit bias, repetition penalty, frequency and presence penalties, top-n-sigma, temperature (lowered by edt), top-k, top-p,
// min-p, typical, eta, top-h, mirostat.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace edgedec::engine {

constexpr double kBans = -100.0;  // a token with this bias is never drawn

struct DrawParams {
  double temperature = 0.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  double top_n_sigma = 0.0;
  double typical = 1.0;
  double eta = 0.0;
  double top_h = 1.0;
  double edt = 0.0;
  double mirostat = 0.0;
  double mirostat_eta = 0.1;
  double repetition_penalty = 1.0;
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, double>> logit_bias;  // by ascending id, once check_params has seen them

  // Whether the noise plays no part.
  bool greedy() const { return temperature == 0.0; }
  // Whether it matters how often the reply has said a token.
  bool counts() const { return frequency_penalty != 0.0 || presence_penalty != 0.0; }
  // Whether a cut is on that looks at one token after the other, before those of narrows().
  bool filters() const { return top_k != 0 || top_p < 1.0 || min_p != 0.0 || top_n_sigma != 0.0; }
  // Whether a cut is on that looks at the whole distribution.
  bool narrows() const { return typical < 1.0 || top_h < 1.0 || eta != 0.0 || mirostat != 0.0; }
  // Whether every token can be drawn that is not banned.
  bool uncut() const { return !(greedy() || filters() || narrows()); }
  // Whether logits are changed before temperature and cuts, so that their order may change.
  bool adjusts() const { return repetition_penalty != 1.0 || counts() || !logit_bias.empty(); }
};

}  // namespace edgedec::engine
