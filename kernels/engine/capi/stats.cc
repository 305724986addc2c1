#include "engine/capi/stats.h"

#include "common/isa.h"
#include "core/base/format.h"
#include "core/base/json.h"
#include "common/os/process.h"
#include "core/memory/sizes.h"

namespace edgedec::engine {
namespace {

void write_plan(Budget& budget, JsonWriter* out) {
  const MemoryPlan& plan = budget.plan();
  out->key("budget_bytes");
  budget.limited() ? out->whole(plan.budget) : out->null();
  out->key("planned_bytes").whole(plan.peak()).key("parts").begin_object();
  for (const MemoryPart& part : plan.parts) out->key(part.name).whole(part.bytes);
  const MemoryChoice& choice = plan.choice;
  out->end_object().key("choice").begin_object().key("context").whole(choice.context).key("kv").text(kv_name(choice.kv));
  out->key("prompt_pass").whole(choice.prompt_pass).key("drafted").whole(choice.drafted);
  out->key("tables").whole(choice.tables).key("model_drafts").flag(choice.model_drafts);
  out->key("experts").whole(choice.experts).end_object();
  out->key("given_up").begin_list();
  for (const std::string& line : plan.given_up) out->text(line);
  out->end_list().key("most_leased").begin_object();
  for (const MemoryPart& part : plan.parts)
    if (const int64_t most = budget.ledger().most(part.name)) out->key(part.name).whole(most);
  out->end_object();
}

void write_experts(const ExpertStore& experts, JsonWriter* out) {
  const experts::StoreCounts counts = experts.counts();
  out->key("experts").begin_object().key("slots").whole(experts.slots()).key("total").whole(experts.sizes().total());
  out->key("held").whole(static_cast<int64_t>(counts.held)).key("hits").whole(static_cast<int64_t>(counts.hits));
  rate(static_cast<int64_t>(counts.hits), static_cast<int64_t>(counts.held), &out->key("hit_rate"));
  out->key("bytes_read").whole(static_cast<int64_t>(counts.bytes_read));
  rounded(static_cast<double>(counts.nanoseconds_waited) / 1e9, &out->key("waited_s"));
  out->end_object();
}

}  // namespace

std::string plan_json(Run& run) {
  JsonWriter out;
  out.begin_object().key("model").text(run.manifest().name);
  write_plan(run.budget(), &out);
  return out.end_object().take();
}

std::string stats_json(Run& run, const ReplyFigures& reply) {
  JsonWriter out;
  const MemoryChoice& choice = run.budget().plan().choice;
  const Speculation* speculation = run.speculation();
  out.begin_object().key("model").text(run.manifest().name).key("architecture").text(run.manifest().spec.architecture);
  out.key("vocabulary").whole(run.manifest().spec.vocab_size);
  out.key("chat_template").flag(run.manifest().tokenizer.chat_template).key("draft").begin_list();
  for (size_t at = 0; speculation && at < speculation->count(); ++at)
    if (speculation->has(at)) out.text(speculation->drafter(at).name());
  out.end_list();
  if (speculation) write_drafts(*speculation, &out);
  out.key("draft_bytes").begin_object();
  for (size_t at = 0; speculation && at < speculation->count(); ++at)
    out.key(speculation->drafter(at).name()).whole(static_cast<int64_t>(speculation->drafter(at).nbytes()));
  rounded(run.load_s(), &out.end_object().key("load_s"));
  out.key("rss_bytes").whole(os::rss_bytes()).key("peak_rss_bytes").whole(os::peak_rss_bytes());
  out.key("context").whole(run.forward().capacity()).key("context_used").whole(run.forward().length());
  out.key("kv").text(kv_name(choice.kv)).key("memory").begin_object();
  write_plan(run.budget(), &out);
  out.end_object();
  if (run.experts()) write_experts(*run.experts(), &out);
  out.key("weight_bytes").whole(run.weight_bytes());
  out.key("kv_cache_bytes").whole(run.budget().ledger().held("kv_cache"));
  out.key("threads").whole(run.threads()).key("isa").text(selected_isa() ? selected_isa() : "").key("reply");
  if (reply.any) {
    write_reply(reply, &out.begin_object());
    out.end_object();
  } else {
    out.null();
  }
  return out.end_object().take();
}

}  // namespace edgedec::engine
