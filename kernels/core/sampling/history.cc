#include "core/sampling/history.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

constexpr size_t kFirstSlots = 512;

}  // namespace

size_t TokenCounts::slot_of(int32_t token) const {
  const size_t mask = slots_.size() - 1;
  size_t at = (static_cast<uint64_t>(static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15 >> 32) & mask;
  while (slots_[at] >= 0 && ids_[slots_[at]] != token) at = (at + 1) & mask;
  return at;
}

void TokenCounts::rehash(size_t slots) {
  slots_.assign(slots, -1);
  for (size_t place = 0; place < ids_.size(); ++place) slots_[slot_of(ids_[place])] = static_cast<int32_t>(place);
}

void TokenCounts::reserve(size_t ids) {
  ids_.reserve(ids);
  counts_.reserve(ids);
  size_t slots = std::max(kFirstSlots, slots_.size());
  while (slots < 2 * (ids + 1)) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

void TokenCounts::add(int32_t token) {
  if (slots_.size() < 2 * (ids_.size() + 1)) rehash(std::max(kFirstSlots, 2 * slots_.size()));
  const size_t at = slot_of(token);
  if (slots_[at] >= 0) {
    counts_[slots_[at]] += 1;
    return;
  }
  slots_[at] = static_cast<int32_t>(ids_.size());
  ids_.push_back(token);
  counts_.push_back(1);
}

int32_t TokenCounts::count(int32_t token) const {
  if (slots_.empty()) return 0;
  const int32_t place = slots_[slot_of(token)];
  return place < 0 ? 0 : counts_[place];
}

DrawHistory::DrawHistory(const DrawParams& params, Span<const int32_t> tokens, size_t said,
                         std::optional<double> bound)
    : reads_ids_(params.repetition_penalty != 1.0), counts_(params.counts()) {
  if (reads_ids_)
    for (const int32_t token : tokens) occurred_.add(token);
  if (counts_)
    for (const int32_t token : tokens.from(tokens.size() - std::min(said, tokens.size()))) said_.add(token);
  if (params.mirostat != 0.0 && !params.greedy()) bound_ = bound ? *bound : 2.0 * params.mirostat;
}

void DrawHistory::add(int32_t token, std::optional<double> bound) {
  bound_ = bound;
  if (base_) {
    behind_.push_back(token);
    return;
  }
  if (reads_ids_) occurred_.add(token);
  if (counts_) said_.add(token);
}

void DrawHistory::reserve(size_t tokens) {
  if (reads_ids_) occurred_.reserve(occurred_.ids().size() + tokens);
  if (counts_) said_.reserve(said_.ids().size() + tokens);
}

DrawHistory DrawHistory::after(Span<const int32_t> tokens, std::optional<double> bound) const {
  DrawHistory found;
  found.reads_ids_ = reads_ids_;
  found.counts_ = counts_;
  found.base_ = &base();
  found.bound_ = tokens.empty() ? bound_ : bound;
  if (!reads_ids_ && !counts_) return found;
  found.behind_ = behind_;
  found.behind_.insert(found.behind_.end(), tokens.begin(), tokens.end());
  return found;
}

bool DrawHistory::has_occurred(int32_t token) const {
  if (!reads_ids_) return false;
  return base().occurred_.count(token) > 0 || std::find(behind_.begin(), behind_.end(), token) != behind_.end();
}

int32_t DrawHistory::said(int32_t token) const {
  if (!counts_) return 0;
  return base().said_.count(token) + static_cast<int32_t>(std::count(behind_.begin(), behind_.end(), token));
}

void DrawHistory::occurred_ids(std::vector<int32_t>* ids) const {
  if (reads_ids_) unlisted(base().occurred_, ids);
}

void DrawHistory::said_ids(std::vector<int32_t>* ids) const {
  if (counts_) unlisted(base().said_, ids);
}

void DrawHistory::unlisted(const TokenCounts& base, std::vector<int32_t>* ids) const {
  ids->insert(ids->end(), base.ids().begin(), base.ids().end());
  for (size_t at = 0; at < behind_.size(); ++at) {
    const bool again = std::find(behind_.begin(), behind_.begin() + at, behind_[at]) != behind_.begin() + at;
    if (!again && base.count(behind_[at]) == 0) ids->push_back(behind_[at]);
  }
}

}  // namespace edgedec::engine
