#include "engine/capi/stats.h"

#include <cmath>

#include "common/isa.h"
#include "engine/base/format.h"
#include "engine/base/json.h"
#include "engine/memory/process.h"
#include "engine/memory/sizes.h"

namespace edgedec::engine {
namespace {

// At six places behind the point, as Python's round does it for numbers of this size.
JsonWriter& rounded(double value, JsonWriter* out) { return out->real(std::nearbyint(value * 1e6) / 1e6); }

void rate(int64_t part, int64_t whole, JsonWriter* out) {
  whole ? rounded(static_cast<double>(part) / static_cast<double>(whole), out) : out->null();
}

void per_second(double count, double seconds, JsonWriter* out) {
  count > 0 && seconds > 0 ? rounded(count / seconds, out) : out->null();
}

void write_plan(Budget& budget, JsonWriter* out) {
  const MemoryPlan& plan = budget.plan();
  out->key("budget_bytes");
  budget.limited() ? out->whole(plan.budget) : out->null();
  out->key("planned_bytes").whole(plan.peak()).key("parts").begin_object();
  for (const MemoryPart& part : plan.parts) out->key(part.name).whole(part.bytes);
  const MemoryChoice& choice = plan.choice;
  out->end_object().key("choice").begin_object().key("context").whole(choice.context).key("kv").text(kv_name(choice.kv));
  out->key("prompt_pass").whole(choice.prompt_pass).key("drafted").whole(choice.drafted);
  out->key("tables").whole(choice.tables).key("model_drafts").flag(choice.model_drafts).end_object();
  out->key("given_up").begin_list();
  for (const std::string& line : plan.given_up) out->text(line);
  out->end_list().key("most_leased").begin_object();
  for (const MemoryPart& part : plan.parts)
    if (const int64_t most = budget.ledger().most(part.name)) out->key(part.name).whole(most);
  out->end_object();
}

void write_drafts(const Speculation& speculation, JsonWriter* out) {
  const Tally& tally = speculation.tally();
  out->key("rounds").whole(tally.rounds).key("drafted_tokens").whole(tally.drafted);
  rate(tally.committed, tally.rounds, &out->key("block_efficiency"));
  rate(tally.accepted, tally.drafted, &out->key("acceptance_rate"));
  out->key("acceptance_by_depth").begin_list();
  for (const Count& count : tally.by_depth) rate(count.accepted, count.drafted, out);
  out->end_list().key("drafted_by").begin_object();
  for (size_t at = 0; at < speculation.count(); ++at) {
    const Count& count = tally.by_source[at];
    const Effort& effort = tally.by_drafter[at];
    out->key(speculation.drafter(at).name()).begin_object().key("drafted").whole(count.drafted);
    out->key("accepted").whole(count.accepted).key("queries").whole(effort.queries);
    out->key("proposed").whole(effort.proposed);
    rounded(effort.draft_s, &out->key("draft_s"));
    rounded(effort.learn_s, &out->key("learn_s"));
    out->end_object();
  }
  rounded(tally.draft_s, &out->end_object().key("draft_s"));
  rounded(tally.verify_s, &out->key("verify_s"));
  out->key("predicted_tokens_per_s");
  tally.predicted_tokens_per_s() ? rounded(*tally.predicted_tokens_per_s(), out) : out->null();
  out->key("predicted_speed_up");
  tally.predicted_speed_up() ? rounded(*tally.predicted_speed_up(), out) : out->null();
  rounded(speculation.plain_s(), &out->key("plain_pass_s"));
}

void write_reply(const ReplyFigures& reply, JsonWriter* out) {
  constexpr const char* kFinishes[] = {"", "stop", "length", "context", "loop", "interrupted"};
  const edgedec_result& result = reply.result;
  out->begin_object().key("finish_reason").text(kFinishes[result.finish]).key("prompt_tokens").whole(result.prompt_tokens);
  out->key("reused_tokens").whole(result.reused_tokens).key("completion_tokens").whole(result.tokens);
  rounded(result.first_token_s, &out->key("prefill_s"));
  rounded(result.decode_s, &out->key("decode_s"));
  const double fed = static_cast<double>(result.prompt_tokens) - result.reused_tokens;
  per_second(fed, result.first_token_s, &out->key("prefill_tokens_per_s"));
  per_second(static_cast<double>(result.tokens) - 1, result.decode_s, &out->key("decode_tokens_per_s"));
  out->key("passes").whole(result.passes).key("drafted_tokens").whole(result.drafted_tokens);
  out->key("accepted_tokens").whole(result.accepted_tokens).key("sampling").begin_object();
  write_sampling(reply.params, out);
  out->key("seed").raw(decimal(reply.params.seed)).end_object().end_object();
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
  out.key("rss_bytes").whole(rss_bytes()).key("peak_rss_bytes").whole(peak_rss_bytes());
  out.key("context").whole(run.forward().capacity()).key("context_used").whole(run.forward().length());
  out.key("kv").text(kv_name(choice.kv)).key("memory").begin_object();
  write_plan(run.budget(), &out);
  out.end_object().key("weight_bytes").whole(run.weight_bytes());
  out.key("kv_cache_bytes").whole(run.budget().ledger().held("kv_cache"));
  out.key("threads").whole(run.threads()).key("isa").text(selected_isa() ? selected_isa() : "").key("reply");
  reply.any ? write_reply(reply, &out) : static_cast<void>(out.null());
  return out.end_object().take();
}

}  // namespace edgedec::engine
