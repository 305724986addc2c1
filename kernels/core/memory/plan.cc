#include "core/memory/plan.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/size.h"
#include "core/memory/units.h"

namespace edgedec::engine {
namespace {

// Bytes by which a process that starts again may hold more. A budget that is named has room for them.
constexpr int64_t kStartsDiffer = 400'000;

constexpr int64_t kUsualContext = 1024;  // tokens that come before drafts, when nobody asked for a context
constexpr int64_t kContextBlock = 32;    // contexts that nobody asked for exactly are multiples of so many tokens
constexpr int64_t kShortestPass = 16;
constexpr int64_t kLeastTableBytes = 1 << 18;

// A choice and the next lesser one.
struct Step {
  MemoryChoice before, after;
};

bool same(const MemoryChoice& a, const MemoryChoice& b) {
  return a.context == b.context && a.kv == b.kv && a.prompt_pass == b.prompt_pass && a.drafted == b.drafted &&
         a.tables == b.tables && a.model_drafts == b.model_drafts && a.experts == b.experts;
}

int64_t peak(const MemoryFacts& facts, const MemoryChoice& choice) { return sum_of(footprint(facts, choice)); }

MemoryChoice shorter_passes(MemoryChoice choice) {
  choice.prompt_pass = std::min(choice.prompt_pass, std::max(choice.prompt_pass / 2, kShortestPass));
  return choice;
}

MemoryChoice smaller_tree(MemoryChoice choice) {
  if (choice.drafted > 1) choice.drafted /= 2;
  return choice;
}

MemoryChoice smaller_tables(MemoryChoice choice) {
  choice.tables = std::min(choice.tables, std::max(choice.tables / 2, kLeastTableBytes));
  return choice;
}

MemoryChoice no_drafter(MemoryChoice choice) {
  choice.model_drafts = false;
  return choice;
}

MemoryChoice no_drafts(MemoryChoice choice) {
  if (choice.drafted) choice.drafted = choice.tables = 0;
  return choice;
}

MemoryChoice smaller_cache(MemoryChoice choice) {
  choice.kv = KvType::kInt8;
  return choice;
}

using Lesser = MemoryChoice (*)(MemoryChoice);
constexpr Lesser kSteps[] = {shorter_passes, smaller_tree, smaller_tables, no_drafter, no_drafts, smaller_cache};

// Walks from `choice` to lesser and lesser ones. `visit` says whether to go on.
template <class Visit>
void walk(const MemoryFacts& facts, MemoryChoice choice, Visit visit) {
  for (Lesser step : kSteps)
    for (;;) {
      const MemoryChoice lesser = step(choice);
      if (same(lesser, choice)) break;
      const bool possible = lesser.kv == KvType::kInt8 ? facts.int8_possible : facts.fp16_possible;
      if (!possible || peak(facts, lesser) >= peak(facts, choice)) break;
      if (!visit(choice, lesser)) return;
      choice = lesser;
    }
}

// The longest context that fits: `most`, or the most blocks below it (0 if none).
int64_t longest_context(const MemoryFacts& facts, MemoryChoice choice, int64_t budget, int64_t most) {
  choice.context = most;
  if (peak(facts, choice) <= budget) return most;
  int64_t low = 0, high = most / kContextBlock + 1;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    choice.context = middle * kContextBlock;
    (peak(facts, choice) <= budget ? low : high) = middle;
  }
  return low * kContextBlock;
}

// Undoes a step in a choice that went on from it; false where a later step changed the same setting.
bool undo(const Step& step, MemoryChoice* choice) {
  MemoryChoice more = *choice;
  bool untouched = true;
  const auto back = [&untouched](const auto& before, const auto& after, auto& now) {
    if (before == after) return;
    untouched = untouched && now == after;
    now = before;
  };
  back(step.before.prompt_pass, step.after.prompt_pass, more.prompt_pass);
  back(step.before.drafted, step.after.drafted, more.drafted);
  back(step.before.tables, step.after.tables, more.tables);
  back(step.before.model_drafts, step.after.model_drafts, more.model_drafts);
  back(step.before.kv, step.after.kv, more.kv);
  if (untouched) *choice = more;
  return untouched;
}

// Takes back the steps that `budget` does not need, the last ones first.
MemoryChoice taken_back(const MemoryFacts& facts, MemoryChoice choice, const std::vector<Step>& taken, int64_t budget) {
  for (size_t at = taken.size(); at-- > 0;) {
    MemoryChoice more = choice;
    if (!undo(taken[at], &more)) continue;
    if (peak(facts, more) <= budget && more.drafted >= (more.model_drafts ? 1 : 0)) choice = more;
  }
  return choice;
}

// Adds a line for each setting that is lower in `choice` than in `wanted`.
void note_given_up(const MemoryChoice& wanted, const MemoryChoice& choice, std::vector<std::string>* lines) {
  if (choice.prompt_pass < wanted.prompt_pass)
    lines->push_back("prompts: read " + decimal(choice.prompt_pass) + " tokens at a time");
  if (choice.drafted && choice.drafted < wanted.drafted)
    lines->push_back("tree: at most " + decimal(choice.drafted) + " drafted tokens in a pass");
  if (choice.tables && choice.tables < wanted.tables)
    lines->push_back("tables: drafters learn at most " + size_text(choice.tables));
  if (choice.model_drafts < wanted.model_drafts) lines->push_back("drafter: no model drafts");
  if (wanted.drafted && !choice.drafted) lines->push_back("drafts: none");
  if (choice.kv != wanted.kv) lines->push_back("cache: in int8, so replies may differ from those of fp16");
  if (choice.context < wanted.context)
    lines->push_back("context: " + decimal(choice.context) + " tokens of " + decimal(wanted.context));
}

// With as many experts in memory as the rest of the budget holds.
MemoryChoice with_experts(const MemoryFacts& facts, MemoryChoice choice, int64_t budget) {
  if (!facts.target.slot_bytes) return choice;
  const int64_t more = (budget - peak(facts, choice)) / facts.target.slot_bytes;
  choice.experts = std::min(choice.experts + more, facts.target.most_experts);
  return choice;
}

std::string first_given_up(const MemoryChoice& wanted, const MemoryChoice& choice) {
  std::vector<std::string> lines;
  note_given_up(wanted, choice, &lines);
  return lines.front();
}

Status refused(const MemoryFacts& facts, const MemoryChoice& choice, MemoryPlan* plan) {
  const int64_t needed = least_budget(facts, choice), budget = plan->budget;
  plan->needed = needed + kStartsDiffer;
  return {Code::kMemoryBudget,
          facts.target.spec.name + " does not fit " + size_text(budget) + ": it needs " + size_text(needed) + " for " +
              decimal(kLeastContext) + " tokens of context",
          "allow at least " + size_up(plan->needed) + ", or use a smaller model"};
}

}  // namespace

int64_t least_budget(const MemoryFacts& facts, const MemoryChoice& wanted, int64_t context) {
  MemoryChoice choice = wanted;
  choice.context = std::min(context, wanted.context);
  int64_t least = peak(facts, choice);
  walk(facts, choice, [&](const MemoryChoice&, const MemoryChoice& lesser) {
    least = std::min(least, peak(facts, lesser));
    return true;
  });
  return least;
}

Status planned(const MemoryFacts& facts, const MemoryChoice& asked, int64_t budget, bool elastic, MemoryPlan* plan) {
  MemoryChoice wanted = asked;
  if (facts.unnamed && peak(facts, asked) > budget) wanted.model_drafts = false;
  MemoryChoice choice = wanted;
  if (elastic) choice.context = std::min(kUsualContext, wanted.context);
  std::vector<Step> taken;
  walk(facts, choice, [&](const MemoryChoice& before, const MemoryChoice& lesser) {
    if (peak(facts, before) <= budget) return false;
    taken.push_back({before, lesser});
    choice = lesser;
    return true;
  });
  if (peak(facts, choice) > budget) {
    const int64_t context = longest_context(facts, choice, budget, choice.context);
    if (context < std::min(kLeastContext, choice.context)) {
      plan->budget = budget;
      return refused(facts, choice, plan);
    }
    choice.context = context;
  } else {
    choice = taken_back(facts, choice, taken, budget);
    if (elastic) choice.context = longest_context(facts, choice, budget, wanted.context);
  }
  choice = with_experts(facts, choice, budget);
  *plan = {budget, choice, footprint(facts, choice), {}, 0};
  note_given_up(asked, choice, &plan->given_up);
  return {};
}

Status plan_drawing(int64_t drawing, int64_t grammar, MemoryFacts* facts, MemoryPlan* plan) {
  if (drawing <= facts->drawing && grammar <= facts->grammar) return {};
  MemoryFacts changed = *facts;
  changed.drawing = std::max(drawing, facts->drawing);
  changed.grammar = std::max(grammar, facts->grammar);
  std::vector<MemoryPart> fixed;
  for (const MemoryPart& part : plan->parts)
    if (part.name != "rows" && part.name != "grammar") fixed.push_back(part);
  if (changed.grammar) fixed.push_back({"grammar", changed.grammar});
  const Size others = sum_of(fixed);
  const int64_t slot = facts->target.slot_bytes, spare = slot ? plan->choice.experts - facts->target.least_experts : 0;
  for (int64_t drafted = plan->choice.drafted; drafted >= 0; --drafted) {
    const int64_t rows = rows_bytes(changed, drafted), over = std::max<int64_t>((others + rows).count() - plan->budget, 0);
    if (over > spare * slot) continue;
    const MemoryChoice before = plan->choice;
    plan->choice.drafted = drafted;
    if (over) plan->choice.experts -= divided_up(over, slot);
    for (MemoryPart& part : fixed)
      if (part.name == "experts") part.bytes = plan->choice.experts * slot;
    fixed.push_back({"rows", rows});
    plan->parts = std::move(fixed);
    note_given_up(before, plan->choice, &plan->given_up);
    facts->drawing = changed.drawing;
    facts->grammar = changed.grammar;
    return {};
  }
  plan->needed = (others + rows_bytes(changed, 0)).count() - spare * slot;
  const std::string asked = changed.grammar ? "structured output: it takes " : "these sampling parameters: they take ";
  const std::string instead = changed.grammar ? "plan for it when the model is opened" : "decode greedily";
  return {Code::kMemoryBudget,
          "no memory for " + asked + size_text(plan->needed - plan->budget) + " more than " + size_text(plan->budget),
          "allow at least " + size_up(plan->needed) + ", or " + instead};
}

std::vector<Milestone> milestones(const MemoryFacts& facts, const MemoryChoice& asked) {
  std::vector<Milestone> found;
  MemoryChoice wanted = asked;
  const auto note = [&](const MemoryChoice& more, const MemoryChoice& less) {
    found.push_back({peak(facts, more), first_given_up(more, less)});
  };
  if (facts.unnamed && asked.model_drafts) {
    wanted.model_drafts = false;
    note(asked, wanted);
  }
  MemoryChoice choice = wanted;
  choice.context = std::min(kUsualContext, wanted.context);
  if (!same(choice, wanted)) note(wanted, choice);
  walk(facts, choice, [&](const MemoryChoice& before, const MemoryChoice& lesser) {
    note(before, lesser);
    choice = lesser;
    return true;
  });
  found.push_back({peak(facts, choice), "context: fewer than " + decimal(choice.context) + " tokens"});
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace edgedec::engine
