// Answers of the engine: facts, tokens as they are committed, figures.
#include "common/isa.h"
#include "core/memory/sizes.h"
#include "engine/web/web_engine.h"

namespace edgedec::engine {

Status WebEngine::encode(std::string_view text, std::string* out) const {
  std::vector<int32_t> ids;
  EDGEDEC_TRY(tokenizer_->encode(text, false, &ids));
  if (manifest_.tokenizer.add_bos) tokenizer_->begin(&ids);
  JsonWriter json;
  json.begin_list();
  for (int32_t id : ids) json.whole(id);
  *out = json.end_list().take();
  return {};
}

void WebEngine::hear(const edgedec_token& token) {
  if (!any_piece_) pieces_.begin_list();
  any_piece_ = true;
  pieces_.begin_object().key("id").whole(token.id).key("text").text({token.text, token.text_size});
  if (token.thought_size) pieces_.key("thought").text({token.thought, token.thought_size});
  pieces_.key("drafter");
  token.drafter ? pieces_.text(token.drafter) : pieces_.null();
  pieces_.key("seconds").real(token.seconds).end_object();
}

// Tokens and text since the last call.
std::string WebEngine::heard() {
  if (!any_piece_) return "[]";
  any_piece_ = false;
  std::string found = pieces_.end_list().take();
  pieces_ = JsonWriter(false);
  return found;
}

std::string WebEngine::facts() const {
  const ModelSpec& spec = manifest_.spec;
  JsonWriter out(false);
  out.begin_object().key("model").text(manifest_.name).key("architecture").text(spec.architecture);
  out.key("vocabulary").whole(spec.vocab_size).key("k").whole(spec.head_k).key("layers").whole(spec.n_layers);
  out.key("kv_heads").whole(spec.n_kv_heads).key("head_dim").whole(spec.head_dim).key("context").whole(forward_->capacity());
  out.key("max_pass").whole(forward_->max_pass()).key("chat_template").flag(template_ != nullptr).key("draft").begin_list();
  for (const std::string& name : drafters_.names()) out.text(name);
  write_sampling(manifest_.preset.sampling, &out.end_list().key("costs").flag(costs_known_).key("sampling").begin_object());
  out.end_object().key("cpu").flag(cpu_ != nullptr);
  if (cpu_) out.key("kv").text(kv_name(caches_->kv())).key("memory").whole(planned());
  out.key("notes").begin_list();
  for (const std::string& line : drafters_.notes()) out.text(line);
  return out.end_list().end_object().take();
}

// The figures of a reply that is over, with what was held back, and costs that it corrected.
std::string WebEngine::figures() {
  JsonWriter out(false);
  const ReplyFigures& reply = turns_->figures();
  write_reply(reply, &out.begin_object());
  out.key("dropped_messages").whole(reply.result.dropped_messages).key("pieces").raw(heard());
  if (!drifted_.empty()) write_costs(drifted_, &out.key("costs"));
  drifted_.clear();
  if (!told_.empty()) {
    out.key("notes").begin_list();
    for (const std::string& line : told_) out.text(line);
    out.end_list();
  }
  told_.clear();
  return out.end_object().take();
}

std::string WebEngine::stats() const {
  JsonWriter out(false);
  out.begin_object().key("model").text(manifest_.name).key("context").whole(forward_->capacity());
  out.key("context_used").whole(forward_->length()).key("isa").text(selected_isa() ? selected_isa() : "scalar");
  if (speculation_) write_drafts(*speculation_, &out);
  out.key("reply");
  if (turns_->figures().any) {
    write_reply(turns_->figures(), &out.begin_object());
    out.end_object();
  } else {
    out.null();
  }
  return out.end_object().take();
}

}  // namespace edgedec::engine
