#include "engine/draft/head_drafter.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace edgedec::engine {
namespace {

constexpr size_t kMostWaiting = static_cast<size_t>(kHeadWaiting);
constexpr double kHeadLeastReach = 0.1;  // paths less probable than this are never followed
constexpr size_t kBeam = 3;          // most nodes that share a pass
constexpr double kHeadClose = 0.4;       // a node shares the pass of the first one if it is at least this probable beside it
constexpr size_t kMostFed = 24;      // most tokens of a pass over drafted nodes
constexpr size_t kLargestHole = 1;   // positions that may be missing between hidden states

}  // namespace

HeadDrafter::HeadDrafter(std::unique_ptr<HeadForward> head, std::vector<int> layers, int64_t width)
    : head_(std::move(head)), layers_(std::move(layers)), width_(static_cast<size_t>(width)), hidden_(width_ / kHeadTaps), taps_(kMostWaiting * width_) {}

Status HeadDrafter::begin(Span<const int32_t> tokens, size_t kept) {
  tokens_.assign(tokens.begin(), tokens.end());
  start_ = tokens_.size();
  next_ = std::min(next_, kept);
  waiting_.resize(static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), [kept](size_t at) { return at < kept; })));
  // The entry of a position has read the token behind it, too.
  const auto stay =
      static_cast<size_t>(std::count_if(cached_.begin(), cached_.end(), [kept](size_t at) { return at + 1 < kept; }));
  if (stay == cached_.size()) return {};
  next_ = std::min(next_, cached_[stay]);
  return forget(stay);
}

Status HeadDrafter::commit(Span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return {};
}

Status HeadDrafter::read(int64_t first, Span<const float> hidden) {
  const auto start = static_cast<size_t>(first);
  const size_t count = hidden.size() / width_;
  if (start > next_ + kLargestHole || (start > next_ && waiting_.empty() && cached_.empty())) {
    EDGEDEC_TRY(forget(0));
    waiting_.clear();
  }
  size_t skipped = next_ > start ? next_ - start : 0;
  if (skipped >= count) return {};
  const size_t end = start + count;
  size_t fresh = count - skipped;
  next_ = end;
  if (waiting_.size() + fresh > kMostWaiting) {  // the cache would have a hole
    EDGEDEC_TRY(forget(0));
    const size_t dropped = std::min(waiting_.size() + fresh - kMostWaiting, waiting_.size());
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<long>(dropped));
    std::memmove(taps_.data(), taps_.data() + dropped * width_, waiting_.size() * width_ * sizeof(float));
  }
  if (fresh > kMostWaiting) {
    skipped += fresh - kMostWaiting;
    fresh = kMostWaiting;
  }
  const Span<const float> added = hidden.from(skipped * width_);
  std::copy(added.begin(), added.end(), taps_.begin() + static_cast<long>(waiting_.size() * width_));
  for (size_t at = end - fresh; at < end; ++at) waiting_.push_back(at);
  return {};
}

Status HeadDrafter::propose(int limit, double floor, Source self, DraftTree* tree) {
  bool ready = false;
  if (limit < 1) return {};
  EDGEDEC_TRY(catch_up(&ready));
  if (!ready) return {};
  const Status grown = grow_tree(limit, std::max(floor, kHeadLeastReach));
  EDGEDEC_TRY(head_->rewind(static_cast<int64_t>(cached_.size())));
  EDGEDEC_TRY(grown);
  tree_.best(limit, floor, self, tree);
  return {};
}

// Feeds what waits; `ready`: whether the cache has read all but the last committed token.
Status HeadDrafter::catch_up(bool* ready) {
  *ready = false;
  if (tokens_.empty() || next_ != tokens_.size() - 1 || (waiting_.empty() && cached_.empty())) return {};
  if (cached_.size() + waiting_.size() + kMostFed > static_cast<size_t>(head_->capacity())) EDGEDEC_TRY(forget(0));
  const auto piece = static_cast<size_t>(head_->longest());
  std::vector<int32_t> tokens;
  for (size_t done = 0; done < waiting_.size();) {
    const size_t count = std::min(piece, waiting_.size() - done);
    tokens.clear();
    for (size_t at = done; at < done + count; ++at) tokens.push_back(tokens_[waiting_[at] + 1]);
    const Span<const float> taps(taps_.data() + done * width_, count * width_);
    cached_.insert(cached_.end(), waiting_.begin() + static_cast<long>(done), waiting_.begin() + static_cast<long>(done + count));
    done += count;
    const int last = static_cast<int>(count) - 1;
    const Span<const int> rows(&last, done == waiting_.size() ? 1 : 0);
    Span<const float> out;
    EDGEDEC_TRY(head_->step(tokens, taps, {}, {}, rows, &found_, &out));
    if (rows.empty()) continue;
    answered_ = true;
    answer_ = found_;
    answer_state_.assign(out.end() - hidden_, out.end());
  }
  waiting_.clear();
  *ready = answered_;
  return {};
}

// Keeps the first `stay` positions of the cache.
Status HeadDrafter::forget(size_t stay) {
  cached_.resize(stay);
  answered_ = false;
  return head_->rewind(static_cast<int64_t>(stay));
}

// Follows the most probable nodes, until nothing that follows can be among the `limit` best.
Status HeadDrafter::grow_tree(int limit, double floor) {
  tree_.clear();
  held_.clear();
  open_.clear();
  states_ = answer_state_;
  history_ = DrawHistory(params_, tokens_, tokens_.size() - start_);
  EDGEDEC_TRY(grow(kRoot, answer_, 0));
  while (!open_.empty()) {
    std::sort(open_.begin(), open_.end(), [this](int a, int b) {
      return tree_.reach[a] != tree_.reach[b] ? tree_.reach[a] > tree_.reach[b] : a < b;
    });
    const double lead = tree_.reach[open_[0]];
    if (lead < floor || tree_.at_least(lead) >= static_cast<size_t>(limit)) break;
    const double least = std::max(floor, kHeadClose * lead);
    std::vector<int> chosen;
    for (size_t at = 0; at < std::min(kBeam, open_.size()); ++at)
      if (tree_.reach[open_[at]] >= least) chosen.push_back(open_[at]);
    bool fed = false;
    EDGEDEC_TRY(feed(std::move(chosen), &fed));
    if (!fed) break;
  }
  return {};
}

// One pass over `chosen` and the nodes above them that the cache lacks; `fed`: whether it has room for them.
Status HeadDrafter::feed(std::vector<int> chosen, bool* fed) {
  *fed = false;
  for (;; chosen.resize(1)) {
    size_t shared = held_.size();
    std::vector<int> path, nodes;
    for (int node : chosen) {
      tree_.path(node, &path);
      shared = std::min(shared, same(path));
    }
    for (int node : chosen) {
      tree_.path(node, &path);
      nodes.insert(nodes.end(), path.begin() + static_cast<long>(shared), path.end());
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    const auto room = static_cast<size_t>(head_->capacity()) - cached_.size() - shared;
    if (nodes.size() > std::min({kMostFed, room, static_cast<size_t>(head_->longest())})) {
      if (chosen.size() == 1) return {};
      continue;
    }
    held_.resize(shared);
    *fed = true;
    return run(chosen, nodes);
  }
}

Status HeadDrafter::run(const std::vector<int>& chosen, const std::vector<int>& nodes) {
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
    const int above = tree_.parents[node];
    tokens.push_back(tree_.tokens[node]);
    parents.push_back(at(above));
    fed_states_.insert(fed_states_.end(), state_of(above), state_of(above) + hidden_);
  }
  for (int node : chosen) rows.push_back(at(node));
  Span<const float> out;
  EDGEDEC_TRY(head_->step(tokens, {}, fed_states_, parents, rows, &found_, &out));
  for (size_t row = 0; row < chosen.size(); ++row) {
    const int node = chosen[row];
    open_.erase(std::remove(open_.begin(), open_.end(), node), open_.end());
    std::memcpy(state_of(node), out.data() + static_cast<size_t>(rows[row]) * hidden_, hidden_ * sizeof(float));
    EDGEDEC_TRY(grow(node, found_, row));
  }
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

// Adds tokens that may follow `node`.
Status HeadDrafter::grow(int node, const HeadRows& rows, size_t row) {
  tree_.spelled(node, &path_);
  const double reach = node == kRoot ? 1.0 : tree_.reach[node];
  const DrawHistory history = history_.after(path_);
  Itself itself;
  const auto position = static_cast<int64_t>(tokens_.size() + path_.size());
  EDGEDEC_TRY(choices_.find(rows, row, params_, position, history, itself, &chosen_));
  for (const Choice& one : chosen_)
    if (reach * one.prob > 0.0) {
      const int place = tree_.add(one.token, node, reach * one.prob);
      if (std::find(open_.begin(), open_.end(), place) == open_.end()) open_.push_back(place);
    }
  states_.resize((tree_.size() + 1) * hidden_);
  return {};
}

size_t HeadDrafter::nbytes() const {
  return taps_.size() * sizeof(float) + tokens_.capacity() * sizeof(int32_t) +
         (cached_.capacity() + waiting_.capacity()) * sizeof(size_t);
}

}  // namespace edgedec::engine
