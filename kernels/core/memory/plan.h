// The memory plan: choices that fit a budget. It gives up the cheapest parts first, and says so. edgedec/memory/plan.py,
// which lists the order.
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

  // The most bytes resident at once.
  int64_t peak() const { return sum_of(parts); }
};

// Finds the choices nearest to `wanted` that take at most `budget` bytes. `elastic`: nobody named a context, so it is as
// long as the rest of the budget allows, up to the wanted one. kMemoryBudget, with the smallest budget that would fit.
Status planned(const MemoryFacts& facts, const MemoryChoice& wanted, int64_t budget, bool elastic, MemoryPlan* plan);

// Makes room in `plan` for draws that take `drawing` bytes per entry of a whole row of logits, for a run whose sampling
// parameters change after the plan was made: everything else is allocated and keeps its bytes. Where too few rows fit,
// fewer tokens are drafted for a pass. `facts`: the facts of the plan, changed too. kMemoryBudget.
Status plan_drawing(int64_t drawing, MemoryFacts* facts, MemoryPlan* plan);

// The smallest budget that fits a context of 64 tokens.
int64_t least_budget(const MemoryFacts& facts, const MemoryChoice& wanted);

}  // namespace edgedec::engine
