// The needs of a draw: edgedec/sampling/needs.py.
#pragma once

#include <cstddef>

#include "core/params.h"

namespace edgedec::engine {

// Whether `draw` may need whole logits rows. False exactly when the `head_k` best logits always suffice: greedy, or
// top-k of at most `head_k`, without logit bias, penalties or top-n-sigma. `logprobs`: whether log-probabilities at
// temperature 1 are wanted besides.
bool needs_logits(const DrawParams& params, size_t head_k, bool logprobs = false);

// At which temperature a pass should sum up the logits: then a list that has the mass of top-p suffices. 1 where that
// is no use, and where the temperature depends on the entropy at 1.
double head_temperature(const DrawParams& params);

// Bytes per entry of a whole row that a DrawScratch takes, at most; 0 where it needs none.
size_t drawing_bytes(const DrawParams& params, size_t head_k);

}  // namespace edgedec::engine
