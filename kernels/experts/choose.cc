#include <algorithm>

#include "experts/experts.h"

namespace edgedec::experts {
namespace {

size_t aligned(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// The indices of the `chosen` largest keys, in ascending order; of equal keys the lower index. Also with keys that are NaN there
// are as many.
void largest(const float* keys, int count, int chosen, Chosen* found) {
  float best[kMostChosen];
  int at[kMostChosen], n = 0;
  for (int e = 0; e < count; ++e) {
    if (n == chosen && !(keys[e] > best[n - 1])) continue;
    int place = n < chosen ? n++ : n - 1;
    for (; place > 0 && best[place - 1] < keys[e]; --place) best[place] = best[place - 1], at[place] = at[place - 1];
    best[place] = keys[e], at[place] = e;
  }
  std::sort(at, at + n);
  for (int i = 0; i < n; ++i) found[i] = {at[i], 0.0f, 0};
}

}  // namespace

Shapes::Shapes(const Weight& gate, const Weight& up, const Weight& down, bool biased)
    : gate(gate), up(up), down(down), up_at(aligned(gate.bytes(), kPartAlignment)),
      down_at(aligned(up_at + up.bytes(), kPartAlignment)), biases_at(aligned(down_at + down.bytes(), kPartAlignment)), biased(biased) {
  const auto numbers = static_cast<size_t>(gate.rows) + static_cast<size_t>(up.rows) + static_cast<size_t>(down.rows);
  stride = aligned(biased ? biases_at + numbers * sizeof(float) : down_at + down.bytes(), kExpertAlignment);
}

void choose(const Row& row, const Routing& routing, const float* scores, const float* choice, const float* factor, float* room,
            Chosen* chosen) {
  const int count = routing.experts, k = routing.chosen;
  float* gated = room;
  const float* keys = scores;
  float most = scores[0];
  if (routing.gating == Gating::kSigmoid) {
    row.gate(routing.gating, scores, most, count, gated);
    float* sums = room + count;
    for (int e = 0; e < count; ++e) sums[e] = choice ? gated[e] + choice[e] : gated[e];
    keys = sums;
  } else {
    for (int e = 1; e < count; ++e)
      if (scores[e] > most) most = scores[e];
    row.gate(routing.gating, scores, most, count, gated);
  }
  largest(keys, count, k, chosen);
  float divisor = 1.0f;
  if (routing.normalise) {
    divisor = 0.0f;
    for (int i = 0; i < k; ++i) divisor += gated[chosen[i].expert];
    divisor += routing.epsilon;
  } else if (routing.gating == Gating::kSoftmax) {
    divisor = 0.0f;
    for (int e = 0; e < count; ++e) divisor += gated[e];
  }
  for (int i = 0; i < k; ++i) {
    const int e = chosen[i].expert;
    chosen[i].weight = gated[e] / divisor * routing.scale * (factor ? factor[e] : 1.0f);
  }
}

}  // namespace edgedec::experts
