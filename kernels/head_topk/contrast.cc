// Combines rows of logits and makes the head's results of them, one row after the other: that takes a small part of the passes.
#include "head_topk/contrast.h"

#include <cmath>
#include <memory>
#include <new>

#include "common/isa.h"
#include "head_topk/refine.h"

using namespace edgedec;
using namespace edgedec::head_topk;

namespace {

constexpr float kTenth = 2.302585093f;  // log 10: an entry so far below the best one has a tenth of its probability
constexpr float kInfinity = __builtin_inff();

void combine(float* with, const float* without, int rows, float weight) {
  int best = 0;
  for (int id = 1; id < rows; ++id)
    if (with[id] > with[best]) best = id;
  const float least = with[best] - kTenth, most = with[best] - without[best];
  for (int id = 0; id < rows; ++id) {
    float gain = with[id] - without[id];
    if (with[id] < least && gain > most) gain = most;
    if (!(std::fabs(gain) < kInfinity)) gain = 0.0f;
    with[id] += weight * gain;
  }
}

// The k largest logits of a row, in any order, and the sums of its blocks. `best` has room for k and a block more.
void reduce(const Row& row, const float* logits, int rows, size_t k, float inverse, BlockSums* sums, Best& best) {
  float bound = -kInfinity;
  int32_t found[kBlock];
  for (int first = 0; first < rows; first += kBlock) {
    const int n = std::min(kBlock, rows - first);
    sums[first / kBlock] = row.sums(logits + first, n, inverse);
    const int hits = row.above(logits + first, n, bound, found);
    for (int i = 0; i < hits; ++i)
      if (!std::isnan(logits[first + found[i]])) best.all[best.count++] = {logits[first + found[i]], first + found[i]};
    if (best.count <= k) continue;
    std::nth_element(best.begin(), best.begin() + k, best.end(), better);
    best.count = k;
    bound = std::max_element(best.begin(), best.end(), better)->value;
  }
}

}  // namespace

int edgedec_head_contrast(const char* name, float* with, const float* without, int r, int rows, int k, float weight,
                          float temperature, float* values, int32_t* ids, float* logsumexp, float* entropy) {
  const Row* row = cpu_has(name) ? find_row(float_row(name)) : nullptr;
  if (!row) return 1;
  const float inverse = 1.0f / temperature;
  if (r < 0 || rows < 1 || k < 1 || k > kBlock || !(weight >= 0.0f && std::isfinite(weight))) return 2;
  if (!(inverse > 0.0f && std::isfinite(inverse))) return 2;
  const int blocks = (rows + kBlock - 1) / kBlock;
  const std::unique_ptr<BlockSums[]> sums(new (std::nothrow) BlockSums[static_cast<size_t>(blocks)]);
  if (!sums) return 3;
  Candidate room[2 * kBlock];
  for (int i = 0; i < r; ++i) {
    float* logits = with + static_cast<size_t>(i) * rows;
    combine(logits, without + static_cast<size_t>(i) * rows, rows, weight);
    Best best{room, 0};
    reduce(*row, logits, rows, static_cast<size_t>(k), inverse, sums.get(), best);
    const RowSums joined = join(*row, blocks, inverse, [&](int b) -> const BlockSums& { return sums[b]; });
    write(best, joined, inverse, k, {values, ids, logsumexp, entropy, nullptr}, i);
  }
  return 0;
}
