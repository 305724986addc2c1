// Functions that tests of memory/ call.
#include "engine/memory/budget.h"
#include "engine/memory/process.h"
#include "core/memory/sizes.h"
#include "core/memory/units.h"
#include "engine/probes/report.h"
#include "engine/probes/specs.h"

using namespace edgedec::engine;

namespace {

void write_plan(const MemoryPlan& plan, JsonWriter* out) {
  const MemoryChoice& choice = plan.choice;
  out->begin_object().key("budget").whole(plan.budget).key("peak").whole(plan.peak()).key("choice").begin_list();
  out->whole(choice.context).text(kv_name(choice.kv)).whole(choice.prompt_pass).whole(choice.drafted);
  out->whole(choice.tables).flag(choice.model_drafts).end_list().key("parts").begin_object();
  for (const MemoryPart& part : plan.parts) out->key(part.name).whole(part.bytes);
  out->end_object().key("given_up").begin_list();
  for (const std::string& line : plan.given_up) out->text(line);
  out->end_list().end_object();
}

}  // namespace

// The plan of a model and perhaps a draft model as JSON, or the error. `numbers`: 12 sizes of the specification, bytes of
// its weights, threads, hidden, exits, bytes of the process, bytes a draw takes; bytes of the draft model's weights (0:
// none), its 12 sizes, its threads; the budget, context, whether it is int8, longest pass, drafted tokens, bytes of
// tables, whether the context was named, whether the draft model was; bytes a draw takes later (0: as before).
EDGEDEC_EXPORT char* edgedec_probe_plan(const char* name, const int64_t* numbers, size_t* out_size) {
  const int64_t* next = numbers;
  ModelMemory draft;
  MemoryFacts facts;
  facts.target.spec = spec_of(name, &next);
  facts.target.weights = *next++;
  facts.target.threads = *next++;
  facts.target.hidden = *next++;
  facts.target.exits = *next++;
  facts.process = *next++;
  facts.drawing = *next++;
  const int64_t draft_weights = *next++;
  draft.spec = spec_of("draft", &next);
  draft.threads = *next++;
  if (draft_weights) facts.drafters.push_back({"drafter", draft_weights, draft_model_rest, &draft});
  MemoryWish wish;
  wish.memory = *next++;
  wish.capacity = *next++;
  wish.kv = *next++ ? KvType::kInt8 : KvType::kFp16;
  wish.longest_pass = *next++;
  wish.drafted = *next++;
  wish.tables = *next++;
  wish.named_context = *next++ != 0;
  facts.unnamed = *next++ == 0;
  std::unique_ptr<Budget> budget;
  Status status = Budget::make(facts, wish, &budget);
  if (status.ok() && *next) status = budget->draw(*next);
  if (!status.ok()) return reported(status, out_size);
  JsonWriter out;
  write_plan(budget->plan(), &out);
  return copied(out.str(), out_size);
}

EDGEDEC_EXPORT char* edgedec_probe_size_text(int64_t count, int up, size_t* out_size) {
  return copied(up ? size_up(count) : size_text(count), out_size);
}

// Resident bytes, the most of them, those in pages of files called `name`, bytes of the mappings of `path`.
EDGEDEC_EXPORT void edgedec_probe_process(const char* name, const char* path, int64_t* found) {
  found[0] = rss_bytes();
  found[1] = peak_rss_bytes();
  found[2] = mapped_rss_bytes(name);
  found[3] = mapped_bytes(path);
}

// Takes and returns leases of a ledger with one share: steps of (bytes or, below 0, bytes to return); the error or null.
EDGEDEC_EXPORT char* edgedec_probe_leases(int64_t share, const int64_t* steps, size_t count, int64_t* facts,
                                          size_t* out_size) {
  Ledger ledger;
  if (share >= 0) ledger.reshare({{"tables", share}, {"slack", 5'000'000}});
  Status status;
  for (size_t at = 0; at < count && status.ok(); ++at) {
    if (steps[at] < 0)
      ledger.give_back("tables", -steps[at]);
    else
      status = ledger.take("tables", steps[at]);
  }
  facts[0] = ledger.held("tables");
  facts[1] = ledger.most("tables");
  return status.ok() ? nullptr : reported(status, out_size);
}
