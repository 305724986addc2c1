// The needs of a draw: whole rows of logits or not, memory, and the temperature of the sums of a pass.
#pragma once

#include <cstddef>

#include "core/params.h"

namespace edgedec::engine {

// Beside the tokens of draws: log-probabilities or the entropy at temperature 1, and a mask of a grammar.
struct Wants {
  bool at_one = false, masked = false;
};

// Whether `draw` may need whole logits rows. False exactly when the `head_k` best logits always suffice: greedy, or
// top-k of at most `head_k`, without logit bias, penalties or top-n-sigma, whose effect depends on logits outside any list.
// For others a list mostly suffices too, but which ones is known only after the pass: rows that `draw` then never reads
// cost little, another pass would not.
bool needs_logits(const DrawParams& params, size_t head_k, Wants wants = {});

// At which temperature a pass should sum up the logits: then a list that has the mass of top-p suffices. 1 where that
// is no use, and where the temperature depends on the entropy at 1.
double head_temperature(const DrawParams& params);

// Bytes per entry of a whole row that a DrawScratch takes, at most; 0 where it needs none.
size_t drawing_bytes(const DrawParams& params, size_t head_k, Wants wants = {});

}  // namespace edgedec::engine
