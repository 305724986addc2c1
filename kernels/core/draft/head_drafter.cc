#include "core/draft/head_drafter.h"

#include <algorithm>
#include <utility>

namespace edgedec::engine {
namespace {

constexpr size_t kBeamOfHead = 3;   // most nodes that share a pass
constexpr size_t kLargestHole = 1;  // positions that may be missing between hidden states: it reads on as if they were not there

}  // namespace

HeadDrafter::HeadDrafter(std::unique_ptr<LayerForward> head, std::vector<int> taps)
    : GrowingDrafter(kBeamOfHead), head_(std::move(head)), taps_(std::move(taps)), hidden_(kMostWaiting * width()) {}

Status HeadDrafter::begin(Span<const int32_t> tokens, size_t kept) {
  EDGEDEC_TRY(GrowingDrafter::begin(tokens, kept));
  next_ = std::min(next_, kept);
  waiting_.resize(static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), [kept](size_t at) { return at < kept; })));
  // The entry of a position has read the token behind it, too.
  const auto stay =
      static_cast<size_t>(std::count_if(cached_.begin(), cached_.end(), [kept](size_t at) { return at + 1 < kept; }));
  if (stay == cached_.size()) return {};
  next_ = std::min(next_, cached_[stay]);
  return forget(stay);
}

Status HeadDrafter::read(int64_t first, Span<const float> hidden) {
  const auto start = static_cast<size_t>(first);
  const size_t end = start + hidden.size() / width();
  if (start > next_ + kLargestHole || (start > next_ && waiting_.empty() && cached_.empty())) {
    EDGEDEC_TRY(forget(0));
    waiting_.clear();
  }
  size_t from = std::max(next_, start);
  if (from >= end) return {};
  next_ = end;
  if (waiting_.size() + end - from > kMostWaiting) {  // the cache would have a hole
    EDGEDEC_TRY(forget(0));
    drop_oldest(std::min(waiting_.size() + end - from - kMostWaiting, waiting_.size()));
    from = std::max(from, end - std::min(end, kMostWaiting));
  }
  const Span<const float> added = hidden.from((from - start) * width());
  std::copy(added.begin(), added.end(), hidden_.begin() + static_cast<std::ptrdiff_t>(waiting_.size() * width()));
  for (; from < end; ++from) waiting_.push_back(from);
  return {};
}

Status HeadDrafter::propose(int limit, double floor, Source self, DraftTree* tree) {
  bool ready = false;
  if (limit < 1) return {};
  EDGEDEC_TRY(catch_up(&ready));
  if (!ready) return {};
  held_.clear();
  const Status grown = grow(answer_, limit, floor, self, tree);
  EDGEDEC_TRY(head_->rewind(static_cast<int64_t>(cached_.size())));
  return grown;
}

size_t HeadDrafter::nbytes() const {
  return hidden_.size() * sizeof(float) + tokens_.capacity() * sizeof(int32_t) +
         (cached_.capacity() + waiting_.capacity()) * sizeof(size_t);
}

// Feeds what waits; `ready`: whether the cache has read all but the last committed token.
Status HeadDrafter::catch_up(bool* ready) {
  if (tokens_.empty() || next_ != tokens_.size() - 1 || (waiting_.empty() && cached_.empty())) return {};
  if (cached_.size() + waiting_.size() + kMostFed > static_cast<size_t>(head_->sizes().capacity)) EDGEDEC_TRY(forget(0));
  EDGEDEC_TRY(feed_waiting(true));
  *ready = answered_;
  return {};
}

Status HeadDrafter::feed_waiting(bool predict) {
  std::vector<int32_t> tokens;
  while (!waiting_.empty()) {
    const size_t count = std::min(static_cast<size_t>(head_->sizes().longest), waiting_.size());
    tokens.clear();
    for (size_t at = 0; at < count; ++at) tokens.push_back(tokens_[waiting_[at] + 1]);
    const int last = static_cast<int>(count) - 1;
    LayerPass pass;
    pass.tokens = tokens;
    pass.taps = Span<const float>(hidden_).first(count * width());
    pass.rows = {&last, predict && count == waiting_.size() ? size_t{1} : size_t{0}};
    pass.keep = keep();
    answered_ = false;
    EDGEDEC_TRY(head_->step(pass, &answer_));
    answered_ = !pass.rows.empty();
    cached_.insert(cached_.end(), waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
    drop_oldest(count);
  }
  return {};
}

// Keeps the first `stay` positions of the cache.
Status HeadDrafter::forget(size_t stay) {
  cached_.resize(stay);
  answered_ = false;
  return head_->rewind(static_cast<int64_t>(stay));
}

// Drops the first `count` positions of those that wait.
void HeadDrafter::drop_oldest(size_t count) {
  const auto end = static_cast<std::ptrdiff_t>(waiting_.size() * width());
  std::copy(hidden_.begin() + static_cast<std::ptrdiff_t>(count * width()), hidden_.begin() + end, hidden_.begin());
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
}

// One pass over `chosen`, or the first of them, and the nodes above that the cache lacks.
Status HeadDrafter::feed(const std::vector<int>& chosen, bool* fed) {
  size_t shared = held_.size();
  std::vector<int> path, nodes;
  for (int node : chosen) {
    tree_.path(node, &path);
    shared = std::min(shared, same(path));
  }
  for (int node : chosen) {
    tree_.path(node, &path);
    nodes.insert(nodes.end(), path.begin() + static_cast<std::ptrdiff_t>(shared), path.end());
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  const LayerSizes& sizes = head_->sizes();
  const size_t room = static_cast<size_t>(sizes.capacity) - cached_.size() - shared;
  *fed = nodes.size() <= std::min({kMostFed, room, static_cast<size_t>(sizes.longest)});
  if (!*fed) return chosen.size() == 1 ? Status() : feed({chosen[0]}, fed);
  held_.resize(shared);
  return feed_nodes(chosen, nodes);
}

Status HeadDrafter::feed_nodes(const std::vector<int>& chosen, const std::vector<int>& nodes) {
  const auto before = static_cast<int64_t>(cached_.size() + held_.size());
  EDGEDEC_TRY(head_->rewind(before));
  const auto at = [&nodes](int node) {
    const auto found = std::lower_bound(nodes.begin(), nodes.end(), node);
    return found != nodes.end() && *found == node ? static_cast<int>(found - nodes.begin()) : kRoot;
  };
  std::vector<int32_t> tokens;
  std::vector<int> parents, rows;
  fed_states_.clear();
  for (int node : nodes) {
    const int above = tree_.parents[static_cast<size_t>(node)];
    tokens.push_back(tree_.tokens[static_cast<size_t>(node)]);
    parents.push_back(at(above));
    fed_states_.insert(fed_states_.end(), state_of(above), state_of(above) + head_->sizes().hidden);
  }
  for (int node : chosen) rows.push_back(at(node));
  EDGEDEC_TRY(head_->step({tokens, {}, fed_states_, parents, rows, keep()}, &found_));
  for (size_t row = 0; row < chosen.size(); ++row) EDGEDEC_TRY(followed(chosen[row], found_, row));
  if (chosen.size() > 1) return head_->rewind(before);
  held_.insert(held_.end(), nodes.begin(), nodes.end());
  return {};
}

// How many nodes of `path` the cache holds; never its last one, which is to be fed.
size_t HeadDrafter::same(const std::vector<int>& path) const {
  size_t count = 0;
  while (count < std::min(held_.size(), path.size() - 1) && held_[count] == path[count]) ++count;
  return count;
}

}  // namespace edgedec::engine
