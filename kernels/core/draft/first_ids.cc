#include "core/draft/first_ids.h"

#include "core/draft/trimmed_head.h"

namespace edgedec::engine {
namespace {

// Numbers of first ids, and their share of the tokens of English text and code (with Qwen2.5's tokenizer).
constexpr struct {
  int64_t ids;
  double share;
} kFirstIds[] = {{8'192, 0.76}, {16'384, 0.85}, {32'768, 0.92}, {65'536, 0.975}};
constexpr int64_t kLarge = 2;  // a vocabulary of so many times as many ids is trimmed to them

}  // namespace

int64_t first_ids(const LayerCost& cost, int64_t vocabulary) {
  int64_t best = 0;
  double most = 0.0;
  for (const auto& [ids, share] : kFirstIds) {
    const double gain = chain_gain(cost.with(ids, vocabulary), 1.0 - share);
    if (vocabulary < kLarge * ids || (best && gain <= most)) continue;
    best = ids;
    most = gain;
  }
  return best;
}

}  // namespace edgedec::engine
