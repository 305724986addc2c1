#include "core/draft/growing_drafter.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

// Paths less probable than this are never followed: a step takes some hundredths of a pass of the target. Entropy does not
// count. A head that has not learned much is unsure nearly everywhere, and often right.
constexpr double kLeastFollowed = 0.1;
constexpr double kSharing = 0.4;  // a node shares the pass of the first one if it is at least this probable beside it

}  // namespace

Status GrowingDrafter::begin(Span<const int32_t> tokens, size_t) {
  tokens_.assign(tokens.begin(), tokens.end());
  start_ = tokens_.size();
  return {};
}

Status GrowingDrafter::commit(Span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return {};
}

Status GrowingDrafter::grow(const HeadPass& answer, int limit, double floor, Source self, DraftTree* tree) {
  tree_.clear();
  open_.clear();
  history_ = DrawHistory(params_, tokens_, tokens_.size() - start_);
  width_ = answer.states.size();
  states_ = answer.states;
  EDGEDEC_TRY(extend(kRoot, answer, 0));
  EDGEDEC_TRY(follow(limit, std::max(floor, kLeastFollowed)));
  tree_.best(limit, floor, self, tree);
  return {};
}

// Follows the most probable nodes, until nothing that follows can be among the `limit` best.
Status GrowingDrafter::follow(int limit, double floor) {
  std::vector<int> chosen;
  for (bool fed = true; fed && !open_.empty();) {
    std::sort(open_.begin(), open_.end(), [this](int a, int b) {
      return tree_.reach[a] != tree_.reach[b] ? tree_.reach[a] > tree_.reach[b] : a < b;
    });
    const double lead = tree_.reach[open_[0]];
    if (lead < floor || tree_.at_least(lead) >= static_cast<size_t>(limit)) break;
    const double least = std::max(floor, kSharing * lead);
    chosen.clear();
    for (size_t at = 0; at < std::min(beam_, open_.size()); ++at)
      if (tree_.reach[open_[at]] >= least) chosen.push_back(open_[at]);
    EDGEDEC_TRY(feed(chosen, &fed));
  }
  return {};
}

Status GrowingDrafter::followed(int node, const HeadPass& found, size_t row) {
  open_.erase(std::remove(open_.begin(), open_.end(), node), open_.end());
  const float* state = found.states.data() + row * width_;
  std::copy(state, state + width_, states_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(node + 1) * width_));
  return extend(node, found, row);
}

// Adds tokens that may follow `node`.
Status GrowingDrafter::extend(int node, const HeadPass& found, size_t row) {
  tree_.spelled(node, &path_);
  const double reach = node == kRoot ? 1.0 : tree_.reach[node];
  const DrawHistory history = history_.after(path_);
  Itself itself;
  const auto position = static_cast<int64_t>(tokens_.size() + path_.size());
  EDGEDEC_TRY(choices_.find(found.rows, row, params_, position, history, itself, &found_));
  for (const Choice& one : found_)
    if (reach * one.prob > 0.0) open_.push_back(tree_.add(one.token, node, reach * one.prob));
  states_.resize((tree_.size() + 1) * width_);
  return {};
}

}  // namespace edgedec::engine
