// The memory plan: choices that fit a budget. It gives up the cheapest parts first, and says so.
//
// The order:
//
// 1. prompts are read in shorter passes (slower; nothing else changes),
// 2. fewer tokens are drafted for a pass,
// 3. drafters learn less,
// 4. no model drafts,
// 5. nothing drafts,
// 6. the KV cache is kept in int8 (the only step that can change a reply),
// 7. the context is shorter.
//
// Experts that are read from the disk get what is left. Before all of this come drafters with weights that nobody named:
// they need a budget in which nothing is given up. A step that would free nothing is not taken. A step that a later one
// made unnecessary is taken back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/memory/footprint.h"

namespace edgedec::engine {

struct MemoryPlan {
  int64_t budget = 0;  // bytes that the process may have resident
  MemoryChoice choice;
  std::vector<MemoryPart> parts;      // bytes by purpose: the shares of the ledger
  std::vector<std::string> given_up;  // a line for each part that was lowered
  int64_t needed = 0;                 // after a refusal: the smallest budget that would do

  // The most bytes resident at once.
  int64_t peak() const { return sum_of(parts); }
};

// Finds the choices nearest to `wanted` that take at most `budget` bytes. `elastic`: nobody named a context, so it is as
// long as the rest of the budget allows, up to the wanted one. kMemoryBudget, with the smallest budget that would fit.
Status planned(const MemoryFacts& facts, const MemoryChoice& wanted, int64_t budget, bool elastic, MemoryPlan* plan);

// Makes room in `plan` for draws that take `drawing` bytes per entry of a whole row of logits, and for `grammar` bytes of
// grammars, for a run whose sampling parameters change after the plan was made: everything else is allocated and keeps its
// bytes, but for experts on the disk: fewer of them are in memory then. Where still too few rows fit, fewer tokens are drafted
// for a pass. `facts`: the facts of the plan, changed too.
// kMemoryBudget, with the budget that would do, when not one row fits.
Status plan_drawing(int64_t drawing, int64_t grammar, MemoryFacts* facts, MemoryPlan* plan);

constexpr int64_t kLeastContext = 64;  // a shorter context is no use for a conversation
// The smallest budget that fits a context of so many tokens.
int64_t least_budget(const MemoryFacts& facts, const MemoryChoice& wanted, int64_t context = kLeastContext);

// A budget, and the part that is given up below it.
struct Milestone {
  int64_t budget = 0;
  std::string given_up;
};

// Budgets in which less and less is given up, from the smallest up.
std::vector<Milestone> milestones(const MemoryFacts& facts, const MemoryChoice& wanted);

}  // namespace edgedec::engine
