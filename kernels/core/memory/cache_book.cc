#include "core/memory/cache_book.h"

#include <utility>

#include "core/base/format.h"
#include "core/tree.h"

namespace edgedec::engine {
namespace {

Status malformed(std::string why) { return {Code::kUsage, std::move(why)}; }

bool is_chain(const std::vector<int>& parents, size_t count) {
  for (size_t at = 0; at < count; ++at)
    if (parents[at] != static_cast<int>(at) - 1) return false;
  return true;
}

// Places tokens behind their parents, and notes whether they are a chain.
Status place(Span<const int> parents, int64_t start, PlannedPass* planned) {
  for (size_t at = 0; at < parents.size(); ++at) {
    const int parent = parents[at];
    if (parent < kRoot || parent >= static_cast<int>(at))
      return malformed("parent " + decimal(parent) + " of token " + decimal(uint64_t{at}) +
                       ": it must be -1 or an earlier token of the pass");
    planned->parents.push_back(parent);
    planned->positions.push_back(parent == kRoot ? start : planned->positions[static_cast<size_t>(parent)] + 1);
    planned->chain = planned->chain && parent == static_cast<int>(at) - 1;
  }
  return {};
}

}  // namespace

int64_t CacheBook::reachable(int64_t length) const {
  if (states_) length = states_->reachable(length);
  return !oldest_ || length - window_ + 1 >= oldest_ ? length : 0;
}

Status CacheBook::check_room(int64_t tokens) const {
  if (tokens <= capacity_ - slots_) return {};
  return {Code::kContextFull,
          decimal(tokens) + " more tokens do not fit: the context holds " + decimal(capacity_) + " and has " +
              decimal(slots_),
          "shorten the prompt or use a larger context"};
}

Status CacheBook::plan(int64_t tokens, Span<const int> parents, PlannedPass* planned) {
  if (tokens < 1) return malformed("a pass needs at least one token");
  if (!settled()) return malformed("settle the tree of the last pass (keep_path or rewind) before the next pass");
  EDGEDEC_TRY(check_room(tokens));
  planned->start = slots_;
  planned->chain = true;
  planned->parents.clear();
  planned->positions.clear();
  if (parents.empty()) {
    for (int64_t at = 0; at < tokens; ++at) {
      planned->parents.push_back(static_cast<int>(at) - 1);
      planned->positions.push_back(slots_ + at);
    }
  } else if (static_cast<int64_t>(parents.size()) == tokens) {
    EDGEDEC_TRY(place(parents, slots_, planned));
  } else {
    return malformed(decimal(uint64_t{parents.size()}) + " parents for " + decimal(tokens) + " tokens");
  }
  if (states_) EDGEDEC_TRY(states_->check(tokens, planned->chain));
  if (ring_) lose(slots_ + tokens - ring_);
  return {};
}

bool CacheBook::append(PlannedPass& planned) {
  fill(planned);
  return states_ && states_->passed(last_.start, static_cast<int64_t>(last_.size()), last_.chain);
}

void CacheBook::fill(PlannedPass& planned) {
  slots_ = planned.start + static_cast<int64_t>(planned.size());
  std::swap(last_, planned);
  open_ = true;
}

Status CacheBook::rewind(int64_t length) {
  if (length < 0 || length > slots_)
    return malformed("cannot rewind to " + decimal(length) + ": the cache holds " + decimal(slots_) + " tokens");
  length = reachable(length);
  if (length == 0) oldest_ = 0;
  const bool stays = length == slots_ && settled();
  const int64_t kept = open_ && !stays ? length - last_.start : 0;
  if (open_ && !last_.chain && kept > 0 && !is_chain(last_.parents, static_cast<size_t>(kept)))
    return malformed("cannot rewind to " + decimal(length) + ", inside a tree: keep a path instead");
  if (states_) states_->rewind(length);
  if (stays) return {};
  slots_ = length;
  open_ = false;
  return {};
}

Status CacheBook::keep(Span<const int> nodes, SlotMoves* moves) {
  moves->from.clear();
  moves->to.clear();
  if (!open_) return malformed("there is no pass to keep a path of");
  int before = kRoot;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const int node = nodes[at];
    if (node < 0 || static_cast<size_t>(node) >= last_.size() || last_.parents[static_cast<size_t>(node)] != before)
      return malformed("the nodes are not a root path of the last pass");
    if (static_cast<size_t>(node) != at) {
      moves->from.push_back(last_.start + node);
      moves->to.push_back(last_.start + static_cast<int64_t>(at));
    }
    before = node;
  }
  slots_ = last_.start + static_cast<int64_t>(nodes.size());
  open_ = false;
  return {};
}

}  // namespace edgedec::engine
