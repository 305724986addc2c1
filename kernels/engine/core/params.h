// Settings of the sampler: edgedec/sampling/params.py. Each default is "off".
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace edgedec::engine {

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
  std::vector<std::pair<int32_t, double>> logit_bias;
};

}  // namespace edgedec::engine
