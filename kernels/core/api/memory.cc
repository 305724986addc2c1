// C ABI of the memory plan: edgedec/core_lib/memory.py, which packs models, facts and choices as whole numbers.
#include "common/capi.h"
#include "core/base/json.h"
#include "core/api/marshal.h"
#include "core/memory/expert_room.h"
#include "core/memory/plan.h"
#include "core/memory/sizes.h"
#include "core/memory/state_book.h"

using namespace edgedec::engine;

namespace {

// Numbers in the order in which they were packed.
class Packed {
 public:
  explicit Packed(const int64_t* next) : next_(next) {}
  int64_t take() { return *next_++; }
  template <class... Fields>
  void into(Fields&... fields) {
    ((fields = *next_++), ...);
  }

 private:
  const int64_t* next_;
};

KvType kv_of(int64_t int8) { return int8 ? KvType::kInt8 : KvType::kFp16; }

void take_states(Packed& packed, std::vector<States>* kinds) {
  kinds->resize(static_cast<size_t>(packed.take()));
  for (States& kind : *kinds) packed.into(kind.layers, kind.row, kind.tail, kind.state);
}

void take_spec(Packed& packed, ModelSpec* spec) {
  packed.into(spec->vocab_size, spec->n_heads, spec->n_kv_heads, spec->head_dim, spec->hidden_size, spec->context_length,
              spec->ffn_size, spec->rings.slack, spec->rings.page, spec->experts.count, spec->experts.chosen, spec->experts.width);
  spec->keys.resize(static_cast<size_t>(packed.take()));
  for (Keys& keys : spec->keys) packed.into(keys.layers, keys.kv_heads, keys.head_dim, keys.window);
  take_states(packed, &spec->states);
}

ModelSpec spec_of(const int64_t* numbers) {
  Packed packed(numbers);
  ModelSpec spec;
  take_spec(packed, &spec);
  return spec;
}

void take_model(Packed& packed, ModelMemory* model) {
  take_spec(packed, &model->spec);
  packed.into(model->weights, model->threads, model->hidden, model->exits, model->slot_bytes,
              model->least_experts, model->most_experts);
}

MemoryChoice choice_of(const int64_t* numbers) {
  Packed packed(numbers);
  MemoryChoice choice;
  choice.context = packed.take();
  choice.kv = kv_of(packed.take());
  packed.into(choice.prompt_pass, choice.drafted, choice.tables, choice.model_drafts, choice.experts);
  return choice;
}

// Returns the bytes of the drafter `index` beside its weights, by the numbers of a choice.
using Rest = int64_t (*)(int64_t index, const int64_t* choice);

// Facts of a host, whose drafters state their memory themselves.
class HostFacts {
 public:
  // `names`: of the drafters' parts and of the target, each with an end.
  HostFacts(const int64_t* numbers, const char* names, Rest rest) : rest_(rest) {
    Packed packed(numbers);
    take_model(packed, &facts.target);
    if (packed.take()) take_model(packed, &facts.small.emplace());
    packed.into(facts.process, facts.drawing, facts.grammar, facts.unnamed, facts.fp16_possible, facts.int8_possible,
                facts.sequences, facts.observed);
    drafters_.resize(static_cast<size_t>(packed.take()));
    const auto next = [&names] {
      std::string name = names;
      names += name.size() + 1;
      return name;
    };
    for (size_t at = 0; at < drafters_.size(); ++at) {
      drafters_[at] = {this, static_cast<int64_t>(at)};
      facts.drafters.push_back({next(), packed.take(), rest_of, &drafters_[at]});
    }
    facts.target.spec.name = next();
  }
  HostFacts(const HostFacts&) = delete;
  HostFacts& operator=(const HostFacts&) = delete;

  MemoryFacts facts;

 private:
  struct Numbered {
    const HostFacts* host = nullptr;
    int64_t index = 0;
  };
  static int64_t rest_of(const void* self, const MemoryChoice& choice, int64_t) {
    const auto& one = *static_cast<const Numbered*>(self);
    const int64_t numbers[] = {choice.context, choice.kv == KvType::kInt8, choice.prompt_pass, choice.drafted,
                               choice.tables,  choice.model_drafts,        choice.experts};
    return one.host->rest_(one.index, numbers);
  }

  Rest rest_;
  std::vector<Numbered> drafters_;
};

// A text that stands until the thread's next call.
const char* said(const JsonWriter& out) {
  thread_local std::string text;
  text = out.str();
  return text.c_str();
}

void write_parts(const std::vector<MemoryPart>& parts, JsonWriter* out) {
  out->begin_object();
  for (const MemoryPart& part : parts) out->key(part.name).whole(part.bytes);
  out->end_object();
}

const char* said(const Status& status, const MemoryPlan& plan) {
  JsonWriter out;
  out.begin_object();
  if (!status.ok()) {
    out.key("message").text(status.message()).key("hint").text(status.hint()).key("needed").whole(plan.needed);
    return said(out.end_object());
  }
  const MemoryChoice& choice = plan.choice;
  out.key("choice").begin_list().whole(choice.context).text(kv_name(choice.kv)).whole(choice.prompt_pass);
  out.whole(choice.drafted).whole(choice.tables).flag(choice.model_drafts).whole(choice.experts).end_list();
  write_parts(plan.parts, &out.key("parts"));
  out.key("given_up").begin_list();
  for (const std::string& line : plan.given_up) out.text(line);
  return said(out.end_list().end_object());
}

}  // namespace

// Writes slack and page.
EDGEDEC_EXPORT void edgedec_memory_ring_sizes(int64_t* found) {
  const RingSizes rings;
  found[0] = rings.slack;
  found[1] = rings.page;
}

EDGEDEC_EXPORT int64_t edgedec_memory_row_bytes(int64_t head_dim, int int8) { return kv_row_bytes(head_dim, kv_of(int8)); }

EDGEDEC_EXPORT int64_t edgedec_memory_ring_slots(const int64_t* spec, int64_t capacity, int64_t longest, int int8) {
  return ring_slots(spec_of(spec), capacity, longest, kv_of(int8));
}

EDGEDEC_EXPORT int64_t edgedec_memory_kv_bytes(const int64_t* spec, int64_t capacity, int int8, int64_t ring) {
  return kv_bytes(spec_of(spec), capacity, kv_of(int8), ring);
}

EDGEDEC_EXPORT int64_t edgedec_memory_state_bytes(const int64_t* kinds) {
  Packed packed(kinds);
  std::vector<States> states;
  take_states(packed, &states);
  return state_bytes(states);
}

EDGEDEC_EXPORT int edgedec_memory_states_check(const StateBook* book, int64_t tokens, int chain) {
  return api::failed(book->check(tokens, chain != 0));
}
EDGEDEC_EXPORT int edgedec_memory_states_passed(StateBook* book, int64_t start, int64_t tokens, int chain) {
  return book->passed(start, tokens, chain != 0);
}
EDGEDEC_EXPORT int64_t edgedec_memory_states_reachable(const StateBook* book, int64_t length) { return book->reachable(length); }
EDGEDEC_EXPORT void edgedec_memory_states_rewind(StateBook* book, int64_t length) { book->rewind(length); }
EDGEDEC_EXPORT void edgedec_memory_states_lose(StateBook* book) { book->lose(); }

EDGEDEC_EXPORT int64_t edgedec_memory_cache_bytes(const int64_t* spec, int64_t context, int int8, int64_t longest,
                                                  int64_t sequences) {
  return cache_bytes(spec_of(spec), context, kv_of(int8), longest, sequences);
}

EDGEDEC_EXPORT int64_t edgedec_memory_scratch_bytes(const int64_t* spec, int64_t threads, int64_t tokens, int64_t context,
                                                    int64_t exits) {
  return scratch_bytes(spec_of(spec), threads, tokens, context, exits);
}

EDGEDEC_EXPORT int64_t edgedec_memory_choice_bytes(const int64_t* spec, int64_t slots) {
  return choice_bytes(spec_of(spec), slots);
}

// `experts`: layers, count, chosen, bytes of a slot, of all; `left`: as MemoryLeft; `room`: slots and the most of them.
// Returns 0 where all are in memory, 1 where they are on the disk, 2 where reads go past the system's cache as well.
EDGEDEC_EXPORT int edgedec_memory_expert_room(const int64_t* experts, int64_t weights, const int64_t* left, int64_t* room) {
  const Experts sizes = {experts[1], experts[2], 0, experts[0], experts[3], experts[4]};
  const ExpertRoom found = expert_room(sizes, weights, {left[0], left[1], left[2]});
  room[0] = found.slots;
  room[1] = found.most;
  return found.on_disk + found.direct;
}

EDGEDEC_EXPORT int64_t edgedec_memory_longest_pass(const int64_t* choice, int64_t sequences) {
  return longest_pass(choice_of(choice), sequences);
}

EDGEDEC_EXPORT int64_t edgedec_memory_draft_model_bytes(const int64_t* model, const int64_t* choice, int64_t sequences,
                                                        int64_t beside) {
  Packed packed(model);
  ModelMemory memory;
  take_model(packed, &memory);
  return draft_model_bytes(memory, choice_of(choice), sequences, beside);
}

// The texts below are JSON. A plan that is refused has "message", "hint" and "needed".
EDGEDEC_EXPORT const char* edgedec_memory_footprint(const int64_t* facts, const char* names, Rest rest, const int64_t* choice) {
  JsonWriter out;
  write_parts(footprint(HostFacts(facts, names, rest).facts, choice_of(choice)), &out);
  return said(out);
}

EDGEDEC_EXPORT const char* edgedec_memory_planned(const int64_t* facts, const char* names, Rest rest, const int64_t* wanted,
                                                  int64_t budget, int elastic) {
  MemoryPlan plan;
  const Status made = planned(HostFacts(facts, names, rest).facts, choice_of(wanted), budget, elastic, &plan);
  return said(made, plan);
}

// `others`: bytes of the plan's parts but experts, rows and grammar. Parts of the result are "others" and these.
EDGEDEC_EXPORT const char* edgedec_memory_drawing(const int64_t* facts, const char* names, Rest rest, const int64_t* choice,
                                                  int64_t budget, int64_t others, int64_t drawing, int64_t grammar) {
  HostFacts host(facts, names, rest);
  MemoryPlan plan;
  plan.budget = budget;
  plan.choice = choice_of(choice);
  plan.parts = {{"others", others}};
  if (plan.choice.experts) plan.parts.push_back({"experts", plan.choice.experts * host.facts.target.slot_bytes});
  const Status made = plan_drawing(drawing, grammar, &host.facts, &plan);
  return said(made, plan);
}

// `context`: tokens that are to fit; 0: as few as are of use.
EDGEDEC_EXPORT int64_t edgedec_memory_least(const int64_t* facts, const char* names, Rest rest, const int64_t* wanted,
                                            int64_t context) {
  return least_budget(HostFacts(facts, names, rest).facts, choice_of(wanted), context ? context : kLeastContext);
}

EDGEDEC_EXPORT const char* edgedec_memory_milestones(const int64_t* facts, const char* names, Rest rest,
                                                     const int64_t* wanted) {
  JsonWriter out;
  out.begin_list();
  for (const Milestone& one : milestones(HostFacts(facts, names, rest).facts, choice_of(wanted)))
    out.begin_list().whole(one.budget).text(one.given_up).end_list();
  return said(out.end_list());
}
