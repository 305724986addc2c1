#include "engine/memory/budget.h"

#include <algorithm>
#include <string>

#include "common/os/memory.h"
#include "common/os/process.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kUnlimited = int64_t{1} << 50;  // a budget in which nothing is given up

}  // namespace

int64_t measured_process(Span<const std::string_view> mapped) {
  os::trim_heap();
  const int64_t now = os::rss_bytes();
  int64_t held = now ? now : os::peak_rss_bytes();
  for (std::string_view name : mapped) held -= os::mapped_rss_bytes(name);
  return std::max<int64_t>(held, 0);
}

MemoryChoice MemoryWish::choice(bool model_drafts) const {
  return {capacity, kv, std::min(longest_pass, capacity), drafted, tables, model_drafts, experts};
}

Status Budget::make(const MemoryFacts& facts, const MemoryWish& wish, std::unique_ptr<Budget>* budget) {
  std::unique_ptr<Budget> made(new Budget);
  made->facts_ = facts;
  made->limited_ = wish.memory > 0;
  const int64_t bytes = made->limited_ ? wish.memory : kUnlimited;
  EDGEDEC_TRY(planned(facts, wish.choice(!facts.drafters.empty()), bytes, !wish.named_context, &made->plan_));
  Ledger& ledger = made->ledger_;
  ledger.reshare(made->plan_.parts);
  const auto hold = [&](const char* part, int64_t held) {
    made->held_.emplace_back(&ledger, part);
    return made->held_.back().grow(held);
  };
  EDGEDEC_TRY(hold("process", facts.process));
  EDGEDEC_TRY(hold("weights", facts.target.weights));
  made->experts_ = Lease(&ledger, "experts");
  EDGEDEC_TRY(made->experts_.grow(made->plan_.choice.experts * facts.target.slot_bytes));
  if (made->plan_.choice.model_drafts)
    for (const DrafterMemory& one : made->facts_.drafters) EDGEDEC_TRY(hold(one.part.c_str(), one.weights));
  *budget = std::move(made);
  return {};
}

Status Budget::draw(int64_t drawing, int64_t grammar) {
  EDGEDEC_TRY(plan_drawing(drawing, grammar, &facts_, &plan_));
  experts_.shrink(plan_.choice.experts * facts_.target.slot_bytes);
  ledger_.reshare(plan_.parts);
  return {};
}

}  // namespace edgedec::engine
