#include "core/draft/model_drafter.h"

#include <algorithm>
#include <utility>

namespace edgedec::engine {
namespace {

constexpr size_t kMostRead = 128;  // most tokens that are read for a draft where a text goes on
// Tokens at the end of a new text that drafts read, as if it began there. Reading takes time from each reply, and a short one
// never repays that of its whole prompt; a longer one makes a context of its own, and lookup covers the distant past.
constexpr size_t kFirst = 48;
constexpr size_t kEnd = 64;  // tokens at the end of a text that drafts go on from where the cache is full
// Share of a path's probability that its next token is expected to keep. No pass is made for less than a level must gain.
// Tokens that turn out below that are proposed all the same: only verifying them costs, which the planner weighs.
constexpr double kKeptReach = 0.6;
constexpr double kModelClose = 0.5;  // a runner-up so probable beside the first shares its pass, for about a third more time
const int kSiblings[] = {kRoot, kRoot};

size_t common_length(Span<const int32_t> first, Span<const int32_t> second) {
  const size_t most = std::min(first.size(), second.size());
  return static_cast<size_t>(std::mismatch(first.begin(), first.begin() + most, second.begin()).first - first.begin());
}

}  // namespace

ModelDrafter::ModelDrafter(std::string name, DraftForward& forward, std::shared_ptr<Bridge> bridge,
                           std::shared_ptr<TrimmedHead> trimmed, ModelBytes bytes, Doubts doubts)
    : name_(std::move(name)),
      forward_(forward),
      bridge_(std::move(bridge)),
      trimmed_(std::move(trimmed)),
      bytes_(bytes),
      doubts_(doubts) {
  pretrained = true;
}

Status ModelDrafter::begin(Span<const int32_t> tokens, size_t kept) {
  EDGEDEC_TRY(bridge_->begin(tokens, kept));
  position_ = static_cast<int64_t>(tokens.size());
  start_ = -1;
  if (trimmed_) trimmed_->begin();
  return {};
}

Status ModelDrafter::commit(Span<const int32_t> tokens) {
  EDGEDEC_TRY(bridge_->commit(tokens));
  position_ += static_cast<int64_t>(tokens.size());
  return {};
}

Status ModelDrafter::propose(int limit, double floor, Source self, DraftTree* tree) {
  Span<const int32_t> ids;
  EDGEDEC_TRY(bridge_->read(&ids));
  if (start_ < 0) start_ = static_cast<int64_t>(ids.size());
  if (ids.empty() || limit < 1) return {};
  if (trimmed_) trimmed_->follow(ids);
  EDGEDEC_TRY(catch_up(ids, drafted(Rows::last()), kFirst));
  // The checkpoint that the next query goes back to.
  if (forward_.most_undone()) EDGEDEC_TRY(forward_.rewind(forward_.length()));
  EDGEDEC_TRY(sketch(limit, std::max(floor / kKeptReach, doubts_.least_reach)));
  EDGEDEC_TRY(bridge_->in_target_ids(tree_, &in_target_ids_));
  in_target_ids_.best(limit, std::min(floor, doubts_.least_reach), self, tree);
  return {};
}

Status ModelDrafter::ahead(Span<const int32_t> tokens, int limit, std::vector<int32_t>* found) {
  found->clear();
  EDGEDEC_TRY(begin(tokens, 0));
  EDGEDEC_TRY(forward_.rewind(0));
  cached_.clear();
  skipped_ = 0;
  Span<const int32_t> ids;
  EDGEDEC_TRY(bridge_->read(&ids));
  if (ids.empty()) return {};
  EDGEDEC_TRY(catch_up(ids, Rows::last(), kMostRead));
  tree_.clear();
  for (int node = kRoot;;) {
    const int32_t token = head_.ids[0];
    node = tree_.add(token, node, 1.0);
    const bool full = static_cast<int64_t>(cached_.size()) == forward_.capacity();
    if (static_cast<int>(tree_.size()) == limit || full || bridge_->ends(token)) break;
    EDGEDEC_TRY(feed({&token, 1}, Rows::last()));
  }
  EDGEDEC_TRY(bridge_->in_target_ids(tree_, &in_target_ids_));
  const Span<const int32_t> drafted(in_target_ids_.tokens);
  found->assign(drafted.begin(), drafted.first(static_cast<size_t>(limit)).end());
  return {};
}

size_t ModelDrafter::nbytes() const {
  return bridge_->nbytes() + cached_.capacity() * sizeof(int32_t) + (trimmed_ ? trimmed_->nbytes() : 0);
}

// The rows of a pass that drafts: over the kept ids, if the head is trimmed now.
Rows ModelDrafter::drafted(Rows rows) const {
  if (trimmed_) rows.keep = trimmed_->keep();
  return rows;
}

// Makes the cache hold `ids`, or their end; the head has `rows` of the last pass, which is always run.
//
// Feeds at most kMostRead tokens, in passes of the model's own length. Where more are missing, or more than were read
// and than `end`, and where hardly any of those read remain, it starts anew with the last `end` tokens; where the cache
// is full, with kEnd.
Status ModelDrafter::catch_up(Span<const int32_t> ids, const Rows& rows, size_t end) {
  const auto capacity = static_cast<size_t>(forward_.capacity());
  const size_t most = std::min(std::max<size_t>(capacity / 2, 1), kMostRead);
  end = std::min(most, end);
  Span<const int32_t> known = ids.from(std::min(skipped_, ids.size()));
  int64_t held = std::min({static_cast<int64_t>(common_length(cached_, known)), forward_.length(),
                           static_cast<int64_t>(known.size()) - 1});
  held = forward_.reachable(std::max<int64_t>(held, 0));
  auto same = static_cast<size_t>(held);
  const bool gone_back = same == 0 || (skipped_ && known.size() < end / 2);
  const bool anew = gone_back || known.size() - same > std::min(std::max(same, end), most);
  if (anew || known.size() > capacity) {
    const size_t read = anew ? end : std::min(most, kEnd);
    skipped_ = ids.size() > read ? ids.size() - read : 0;
    known = ids.from(skipped_);
    same = 0;
  }
  EDGEDEC_TRY(forward_.rewind(static_cast<int64_t>(same)));
  cached_.resize(std::min(cached_.size(), same));
  const auto piece = static_cast<size_t>(forward_.max_pass());
  for (; known.size() - same > piece; same += piece)
    EDGEDEC_TRY(feed(known.from(same).first(piece), Rows::chosen({})));
  return feed(known.from(same), rows);
}

Status ModelDrafter::feed(Span<const int32_t> tokens, const Rows& rows) {
  EDGEDEC_TRY(pass(tokens, {}, rows));
  cached_.insert(cached_.end(), tokens.begin(), tokens.end());
  return {};
}

Status ModelDrafter::pass(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows) {
  EDGEDEC_TRY(forward_.extend(tokens, parents, rows, &head_));
  const double saved = rows.keep.empty() ? 0.0 : trimmed_->saved();
  const double streamed = (1.0 - saved) * bytes_.weights - bytes_.table;
  work_.add(forward_.share() * streamed + bytes_.slot * static_cast<double>(cached_.size()),
            bytes_.table > 0.0 ? bytes_.table : saved * bytes_.weights);
  return {};
}

// Follows the most probable path, until nothing that follows can be among the `limit` best.
Status ModelDrafter::sketch(int limit, double floor) {
  tree_.clear();
  const int64_t said = static_cast<int64_t>(skipped_ + cached_.size()) - start_;
  const auto most = static_cast<int64_t>(cached_.size());
  history_ = DrawHistory(params_, cached_, static_cast<size_t>(std::clamp<int64_t>(said, 0, most)));
  EDGEDEC_TRY(grow(kRoot, 0, &following_));
  while (!following_.empty() && static_cast<int64_t>(cached_.size()) < forward_.capacity()) {
    const double lead = tree_.reach[following_[0]];
    if (lead < floor || tree_.at_least(lead) >= static_cast<size_t>(limit)) break;
    EDGEDEC_TRY(step(together(std::max(floor, kModelClose * lead))));
  }
  return {};
}

// Nodes of the next pass: the first, and the second if it is probable and there is room.
size_t ModelDrafter::together(double least) const {
  const int64_t room = forward_.capacity() - static_cast<int64_t>(cached_.size());
  return forward_.trees() && following_.size() > 1 && tree_.reach[following_[1]] >= least && room >= 2 ? 2 : 1;
}

// One pass over siblings; the one with the better continuation stays in the cache.
Status ModelDrafter::step(size_t fed) {
  const int nodes[] = {following_[0], fed == 2 ? following_[1] : kNone};
  const int32_t tokens[] = {tree_.tokens[nodes[0]], fed == 2 ? tree_.tokens[nodes[1]] : 0};
  if (fed == 1) {
    EDGEDEC_TRY(feed({tokens, 1}, drafted(Rows::last())));
    return grow(nodes[0], 0, &following_);
  }
  EDGEDEC_TRY(pass({tokens, 2}, {kSiblings, 2}, drafted(Rows::all())));
  EDGEDEC_TRY(grow(nodes[0], 0, &following_));
  EDGEDEC_TRY(grow(nodes[1], 1, &other_));
  const int kept = most_reached(other_) > most_reached(following_);
  if (kept) following_.swap(other_);
  EDGEDEC_TRY(forward_.keep_path({&kept, 1}));
  cached_.push_back(tokens[kept]);
  return {};
}

double ModelDrafter::most_reached(const Nodes& nodes) const {
  double most = 0.0;
  for (int node : nodes) most = std::max(most, tree_.reach[node]);
  return most;
}

// Adds tokens that may follow `node`, and finds those that can be followed in turn, best first.
Status ModelDrafter::grow(int node, size_t row, Nodes* following) {
  following->clear();
  if (head_.entropy[row] > doubts_.unsure_nats) return {};
  tree_.spelled(node, &path_);
  const double reach = node == kRoot ? 1.0 : tree_.reach[node];
  const DrawHistory history = history_.after(path_);
  // Only noise reads the position. Greedily the tokens need not be counted in the target's vocabulary.
  int64_t behind = 0;
  if (!params_.greedy()) EDGEDEC_TRY(bridge_->length(path_, &behind));
  EDGEDEC_TRY(choices_.find(head_, row, params_, position_ + behind, history, *bridge_, &found_));
  for (const Choice& one : found_) {
    if (!(reach * one.prob > 0.0)) continue;
    const int place = tree_.add(one.token, node, reach * one.prob);
    if (!bridge_->ends(one.token)) following->push_back(place);
  }
  return {};
}

}  // namespace edgedec::engine
