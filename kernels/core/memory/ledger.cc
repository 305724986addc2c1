#include "core/memory/ledger.h"

#include "core/memory/size.h"
#include "core/memory/units.h"

namespace edgedec::engine {

const Ledger::Entry* Ledger::find(std::string_view name) const {
  for (const Entry& one : entries_)
    if (one.name == name) return &one;
  return nullptr;
}

Ledger::Entry& Ledger::entry(std::string_view name) {
  if (const Entry* found = find(name)) return entries_[static_cast<size_t>(found - entries_.data())];
  entries_.push_back({std::string(name), 0, 0, 0});
  return entries_.back();
}

void Ledger::reshare(const std::vector<MemoryPart>& shares) {
  limited_ = true;
  for (Entry& one : entries_) one.share = 0;
  for (const MemoryPart& part : shares) entry(part.name).share = part.bytes;
}

Status Ledger::take(std::string_view name, int64_t bytes) {
  if (above_) EDGEDEC_TRY(above_->take(booked_as(name), bytes));
  Entry& one = entry(name);
  const int64_t held = (Size(one.held) + bytes).count();
  if (limited_ && held > one.share) {
    Size budget = 0;
    for (const Entry& each : entries_) budget = budget + each.share;
    return {Code::kMemoryBudget,
            "no memory for " + one.name + ": it takes " + size_text(bytes) + " more, and " +
                size_text(one.share - one.held) + " of the " + size_text(one.share) + " planned for it are left",
            "allow at least " + size_up((budget + held).count() - one.share)};
  }
  one.held = held;
  if (held > one.most) one.most = held;
  return {};
}

void Ledger::give_back(std::string_view name, int64_t bytes) {
  if (above_) above_->give_back(booked_as(name), bytes);
  entry(name).held -= bytes;
}

int64_t Ledger::held(std::string_view name) const {
  const Entry* found = find(name);
  return found ? found->held : 0;
}

int64_t Ledger::most(std::string_view name) const {
  const Entry* found = find(name);
  return found ? found->most : 0;
}

int64_t Ledger::held() const {
  Size total = 0;
  for (const Entry& one : entries_) total = total + one.held;
  return total.count();
}

Status Lease::grow(int64_t bytes) {
  if (!ledger_ || bytes <= bytes_) return {};
  EDGEDEC_TRY(ledger_->take(name_, bytes - bytes_));
  bytes_ = bytes;
  return {};
}

void Lease::shrink(int64_t bytes) {
  if (!ledger_ || bytes >= bytes_) return;
  ledger_->give_back(name_, bytes_ - bytes);
  bytes_ = bytes;
}

}  // namespace edgedec::engine
