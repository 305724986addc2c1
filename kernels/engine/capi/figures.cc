#include "engine/capi/figures.h"

#include <cmath>

#include "core/base/format.h"
#include "engine/bundle/preset.h"

namespace edgedec::engine {
namespace {

void per_second(double count, double seconds, JsonWriter* out) {
  count > 0 && seconds > 0 ? rounded(count / seconds, out) : out->null();
}

}  // namespace

JsonWriter& rounded(double value, JsonWriter* out) { return out->real(std::nearbyint(value * 1e6) / 1e6); }

void rate(int64_t part, int64_t whole, JsonWriter* out) {
  whole ? rounded(static_cast<double>(part) / static_cast<double>(whole), out) : out->null();
}

void write_drafts(const Speculation& speculation, JsonWriter* out) {
  const Tally& tally = speculation.tally();
  out->key("rounds").whole(tally.rounds).key("drafted_tokens").whole(tally.drafted);
  rate(tally.committed, tally.rounds, &out->key("block_efficiency"));
  rate(tally.accepted, tally.drafted, &out->key("acceptance_rate"));
  out->key("acceptance_by_depth").begin_list();
  for (const Count& count : tally.by_depth) rate(count.accepted, count.drafted, out);
  out->end_list().key("drafted_by").begin_object();
  for (size_t at = 0; at <= speculation.count(); ++at) {
    const Count& count = tally.by_source[at];
    const bool certain = at == speculation.count();  // tokens that a form leaves no choice of
    if (certain && !count.drafted) break;
    const Effort effort = certain ? Effort() : tally.by_drafter[at];
    out->key(certain ? "grammar" : speculation.drafter(at).name()).begin_object().key("drafted").whole(count.drafted);
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
  out->key("finish_reason").text(kFinishes[result.finish]).key("prompt_tokens").whole(result.prompt_tokens);
  out->key("reused_tokens").whole(result.reused_tokens).key("completion_tokens").whole(result.tokens);
  rounded(result.first_token_s, &out->key("prefill_s"));
  rounded(result.decode_s, &out->key("decode_s"));
  const double fed = static_cast<double>(result.prompt_tokens) - result.reused_tokens;
  per_second(fed, result.first_token_s, &out->key("prefill_tokens_per_s"));
  per_second(static_cast<double>(result.tokens) - 1, result.decode_s, &out->key("decode_tokens_per_s"));
  out->key("passes").whole(result.passes).key("drafted_tokens").whole(result.drafted_tokens);
  out->key("accepted_tokens").whole(result.accepted_tokens).key("sampling").begin_object();
  write_sampling(reply.params, out);
  out->key("seed").raw(decimal(reply.params.seed)).end_object();
}

}  // namespace edgedec::engine
