// The memory budget of a run: facts of the loaded models in, a memory plan and its ledger out. edgedec/assemble/budget.py,
// for one sequence.
//
// The process is measured once its models are loaded. All that comes on top is computed, leased from one ledger, and given
// up in a stated order where it does not fit.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/memory/ledger.h"
#include "core/memory/plan.h"

namespace edgedec::engine {

// A run as its caller wants it, if memory had no limit.
struct MemoryWish {
  int64_t memory = 0;   // the most bytes of the process; 0: no limit
  int64_t capacity = 0;     // tokens of the KV cache, checked against the model
  bool named_context = false;  // whether the caller named them: else they may become fewer, without a word
  KvType kv = KvType::kFp16;
  int64_t longest_pass = 128;  // tokens of a prompt in one pass
  int64_t drafted = 15;        // most drafted tokens in one pass; 0: nothing drafts
  int64_t tables = 0;          // bytes that drafters without a model may learn
  int64_t experts = 0;         // the fewest that passes need in memory, where they are read from the disk

  // The same as a choice, with or without drafters that have weights of their own.
  MemoryChoice choice(bool model_drafts) const;
};

// Bytes that the process holds with its models loaded, apart from pages of the files called `mapped`; pages that were
// freed are returned to the system first.
int64_t measured_process(Span<const std::string_view> mapped);

class Budget {
 public:
  // Fits a run into its budget, or into one in which nothing is given up; nothing is allocated yet, but what is held
  // already is leased. kMemoryBudget.
  static Status make(const MemoryFacts& facts, const MemoryWish& wish, std::unique_ptr<Budget>* budget);

  const MemoryPlan& plan() const { return plan_; }
  const MemoryFacts& facts() const { return facts_; }
  Ledger& ledger() { return ledger_; }
  bool limited() const { return limited_; }
  // Tokens of the longest pass.
  int64_t longest_pass() const { return edgedec::engine::longest_pass(plan_.choice); }

  // Makes room for replies whose draws take `drawing` bytes per entry of a whole row of logits, and for `grammar` bytes of
  // their forms. Everything else keeps its bytes; fewer experts may be in memory, and fewer tokens drafted for a pass, of which the plan has another line then.
  // kMemoryBudget.
  Status draw(int64_t drawing, int64_t grammar);

 private:
  Budget() = default;

  MemoryFacts facts_;
  MemoryPlan plan_;
  bool limited_ = false;
  Ledger ledger_;
  std::vector<Lease> held_;  // of what is there already
  Lease experts_;
};

}  // namespace edgedec::engine
