#include "core/control/batch_costs.h"

#include <algorithm>
#include <cmath>

namespace edgedec::engine {
namespace {

constexpr double kKeptMean = 0.8;       // share of the average over passes that remains after one more

}  // namespace

double SequenceCosts::seconds(int tokens) const {
  const int everyone = others_ + 1, drafted = std::clamp(tokens, 1, longest()) - 1;
  if (!drafted) return plain();
  const int total = static_cast<int>(std::nearbyint(others_ * each_)) + 1 + drafted;
  const double all = whole(total);
  const double added = all - whole(total - drafted);
  const double share = (all - whole(everyone)) * drafted / (total - everyone);
  return plain() + std::max(added, share);
}

void SequenceCosts::shared(int others, int tokens) {
  if (others) each_ = kKeptMean * each_ + (1.0 - kKeptMean) * tokens / others;
  others_ = others;
}

// Seconds of a whole pass; beyond the table as many times the longest as it has more tokens.
double SequenceCosts::whole(int tokens) const {
  const int longest = inner_.longest();
  const double times = static_cast<double>(tokens) / longest;
  return inner_.seconds(std::min(tokens, longest)) * std::max(times, 1.0);
}

void BatchCosts::passed(Span<const std::pair<int, int>> tokens, double seconds, const PassReads* reads) {
  int total = 0;
  for (const auto& [sequence, own] : tokens) total += own;
  seconds = table_.expected(total, seconds, reads);
  ++passes_;
  const bool plain = static_cast<size_t>(total) == tokens.size();
  if (!plain || passes_ % kSampled == 0 || table_.level_is_old()) table_.observe(total, seconds, plain);
  for (const auto& [sequence, own] : tokens)
    views_[static_cast<size_t>(sequence)].shared(static_cast<int>(tokens.size()) - 1, total - own);
}

}  // namespace edgedec::engine
