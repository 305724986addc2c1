// Answers of the engine: facts, tokens as they are committed, figures.
#include "common/isa.h"
#include "engine/text/white_space.h"
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

void WebEngine::begin_thinking(WebRequest::Kind kind) {
  if (kind == WebRequest::kMore) return;
  thinking_.reset();
  if (kind != WebRequest::kMessages) return;
  const ThinkingTags tags = thinking_tags(source_);
  const std::string_view prompt = without_space_at_end(turns_->prompt_text());
  const bool begun = prompt.size() >= tags.begin.size() && prompt.substr(prompt.size() - tags.begin.size()) == tags.begin;
  thinking_.emplace(begun, tags);
}

// The spelling of a control token that is a tag, or the beginning of one; such tokens add nothing to a text.
std::string_view WebEngine::tag_of(int64_t token) const {
  const ThinkingTags tags = thinking_tags(source_);
  for (const auto& [text, id] : tokenizer_->control()) {
    if (id == token && !text.empty() && (text == tags.end || tags.begin.substr(0, text.size()) == text)) return text;
  }
  return {};
}

void WebEngine::hear(const edgedec_token& token) {
  std::string text(token.text, token.text_size);
  if (!thinking_) return say(token, {"", std::move(text)});
  if (text.empty()) text = tag_of(token.id);
  say(token, thinking_->push(text));
}

void WebEngine::say(const edgedec_token& token, const ThinkingSplitter::Parts& parts) {
  if (!any_piece_) pieces_.begin_list();
  any_piece_ = true;
  pieces_.begin_object().key("id").whole(token.id).key("text").text(parts.answer);
  if (!parts.thinking.empty()) pieces_.key("thought").text(parts.thinking);
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
  for (const std::string& name : options_.drafters) out.text(name);
  write_sampling(manifest_.preset.sampling, &out.end_list().key("costs").flag(costs_known_).key("sampling").begin_object());
  return out.end_object().key("cpu").flag(cpu_ != nullptr).end_object().take();
}

// The figures of a reply that is over, with what was held back, and costs that it corrected.
std::string WebEngine::figures() {
  JsonWriter out(false);
  const ReplyFigures& reply = turns_->figures();
  if (thinking_ && reply.result.finish == EDGEDEC_FINISH_STOP) {
    const ThinkingSplitter::Parts rest = thinking_->flush();
    edgedec_token none = {};
    none.id = -1;
    if (!rest.thinking.empty() || !rest.answer.empty()) say(none, rest);
  }
  write_reply(reply, &out.begin_object());
  out.key("dropped_messages").whole(reply.result.dropped_messages).key("pieces").raw(heard());
  if (!drifted_.empty()) write_costs(drifted_, &out.key("costs"));
  drifted_.clear();
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
