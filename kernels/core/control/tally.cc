#include "core/control/tally.h"

#include <algorithm>

namespace edgedec::engine {

void Tally::add(const DraftTree& fed, Span<const int> accepted_nodes, size_t committed_tokens, double seconds) {
  ++rounds;
  committed += static_cast<int64_t>(committed_tokens);
  verify_s += seconds;
  drafted += static_cast<int64_t>(fed.size());
  accepted += static_cast<int64_t>(accepted_nodes.size());
  for (size_t node = 0; node < fed.size(); ++node) {
    const auto at = std::find(accepted_nodes.begin(), accepted_nodes.end(), static_cast<int>(node));
    const bool right = at != accepted_nodes.end();
    by_source[static_cast<size_t>(fed.sources[node])].add(right);
  }
  const size_t levels = std::min(accepted_nodes.size() + 1, committed_tokens);
  for (size_t depth = 0; depth < levels; ++depth) {
    const int level = depth ? accepted_nodes[depth - 1] : kRoot;
    if (std::find(fed.parents.begin(), fed.parents.end(), level) == fed.parents.end()) break;
    if (depth == by_depth.size()) by_depth.emplace_back();
    by_depth[depth].add(depth < accepted_nodes.size());
  }
}

double Tally::predicted_s() const {
  double drafting = 0.0;
  for (const Effort& one : by_drafter) drafting += one.seconds();
  return forecast.passes_s + drafting;
}

std::optional<double> Tally::predicted_tokens_per_s() const {
  if (!forecast.tokens) return {};
  return static_cast<double>(forecast.tokens) / predicted_s();
}

std::optional<double> Tally::predicted_speed_up() const {
  if (!forecast.tokens) return {};
  return forecast.plain_s / predicted_s();
}

}  // namespace edgedec::engine
