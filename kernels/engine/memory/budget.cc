#include "engine/memory/budget.h"

#include <stdlib.h>
#if defined(__GLIBC__) || defined(__ANDROID__)
#include <malloc.h>
#endif

#include <algorithm>
#include <string>

#include "engine/memory/process.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kUnlimited = int64_t{1} << 50;  // a budget in which nothing is given up

// Returns pages that were freed but kept by the C library's allocator.
void release_freed() {
#if defined(EDGEDEC_ANDROID)
  constexpr int kPurge = -101;  // of Android's <malloc.h>; its versions before 9 do nothing
  mallopt(kPurge, 0);
#elif defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

int64_t measured_process(Span<const std::string_view> mapped) {
  release_freed();
  const int64_t now = rss_bytes();
  int64_t held = now ? now : peak_rss_bytes();
  for (std::string_view name : mapped) held -= mapped_rss_bytes(name);
  return std::max<int64_t>(held, 0);
}

Status Budget::make(const MemoryFacts& facts, const MemoryWish& wish, std::unique_ptr<Budget>* budget) {
  MemoryChoice wanted;
  wanted.context = wish.capacity;
  wanted.kv = wish.kv;
  wanted.prompt_pass = std::min(wish.longest_pass, wish.capacity);
  wanted.drafted = wish.drafted;
  wanted.tables = wish.tables;
  wanted.model_drafts = !facts.drafters.empty();
  std::unique_ptr<Budget> made(new Budget);
  made->facts_ = facts;
  made->limited_ = wish.memory > 0;
  const int64_t bytes = made->limited_ ? wish.memory : kUnlimited;
  EDGEDEC_TRY(planned(facts, wanted, bytes, !wish.named_context, &made->plan_));
  Ledger& ledger = made->ledger_;
  ledger.reshare(made->plan_.parts);
  made->process_ = Lease(&ledger, "process");
  made->weights_ = Lease(&ledger, "weights");
  EDGEDEC_TRY(made->process_.grow(facts.process));
  EDGEDEC_TRY(made->weights_.grow(facts.target.weights));
  if (made->plan_.choice.model_drafts)
    for (const DrafterMemory& one : made->facts_.drafters) {
      made->drafters_.emplace_back(&ledger, one.part.c_str());
      EDGEDEC_TRY(made->drafters_.back().grow(one.weights));
    }
  *budget = std::move(made);
  return {};
}

Status Budget::draw(int64_t drawing) {
  EDGEDEC_TRY(plan_drawing(drawing, 0, &facts_, &plan_));
  ledger_.reshare(plan_.parts);
  return {};
}

}  // namespace edgedec::engine
