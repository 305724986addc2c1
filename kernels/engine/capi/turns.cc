#include "engine/capi/turns.h"

#include <algorithm>

#include "core/base/format.h"

namespace edgedec::engine {

Status no_tools() {
  return {Code::kUnsupported, "the engine without Python has no tools", "bind the reply to the schema of a call, or run it with Python"};
}

// Checks the order of messages, and puts the preset's system message in front where none is named.
Status Turns::checked(Texts* messages) const {
  const bool named = !messages->empty() && messages->front().first == "system";
  for (size_t at = 0; at < messages->size(); ++at) {
    const std::string& role = (*messages)[at].first;
    if (role == "system" && at) return {Code::kUsage, "a system message stands after another message", "put it first"};
    if (role == "tool") return no_tools();
    if (role != "system" && role != "user" && role != "assistant")
      return {Code::kUsage, "unknown role " + quoted(role), "there are system, user, assistant"};
  }
  if (named && messages->front().second.empty()) messages->erase(messages->begin());
  if (!named && manifest_.preset.system) messages->emplace(messages->begin(), "system", *manifest_.preset.system);
  if (messages->empty() || messages->back().first != "user")
    return {Code::kUsage, "there is no message to answer", "the last one must be the user's"};
  return {};
}

Status Turns::fit(Turn* turn, size_t said) {
  Texts& messages = turn->messages;
  std::vector<Message> given;
  for (const auto& [role, content] : messages) given.push_back({role, content});
  EDGEDEC_TRY(conversation_.fit(given, turn->request.max_tokens, said, &turn->prompt, &turn->dropped));
  const auto first = messages.begin() + static_cast<long>(messages[0].first == "system");
  messages.erase(first, first + static_cast<long>(turn->dropped));
  return {};
}

Status Turns::begin(Texts messages, ReplyRequest request, Engine& engine, const Speculation* speculation) {
  EDGEDEC_TRY(checked(&messages));
  Turn turn;
  turn.chats = true;
  turn.messages = std::move(messages);
  turn.request = std::move(request);
  EDGEDEC_TRY(form(&turn));
  EDGEDEC_TRY(fit(&turn, 0));
  turn_ = std::move(turn);
  return start(turn_.request.max_tokens ? 0 : conversation_.reply_room(turn_.prompt.ids.size()), engine, speculation);
}

Status Turns::begin(std::string_view text, ReplyRequest request, Engine& engine, const Speculation* speculation) {
  Turn turn;
  EDGEDEC_TRY(conversation_.of_text(text, &turn.prompt.ids));
  turn.request = std::move(request);
  EDGEDEC_TRY(form(&turn));
  turn_ = std::move(turn);
  return start(0, engine, speculation);
}

Status Turns::begin(Span<const int32_t> prompt, ReplyRequest request, Engine& engine, const Speculation* speculation) {
  Turn turn;
  turn.prompt.ids.assign(prompt.begin(), prompt.end());
  turn.request = std::move(request);
  EDGEDEC_TRY(form(&turn));
  turn_ = std::move(turn);
  return start(0, engine, speculation);
}

Status Turns::begin_more(ReplyRequest request, Engine& engine, const Speculation* speculation) {
  if (!unfinished_) return {Code::kUsage, "there is no reply to continue", "the last one ended by itself, or there is none"};
  Turn turn;
  turn.chats = turn.more = true;
  turn.messages.assign(messages_.begin(), messages_.end() - 1);
  turn.prompt = unfinished_->prompt;
  turn.before = unfinished_->tokens;
  turn.shown = unfinished_->shown;
  turn.bound = unfinished_->bound;
  turn.request = std::move(request);
  EDGEDEC_TRY(form(&turn));
  const int64_t capacity = engine.forward().capacity();
  if (static_cast<int64_t>(turn.prompt.ids.size() + turn.before.size()) >= capacity) {
    EDGEDEC_TRY(fit(&turn, turn.before.size()));
    if (!turn.dropped)
      return {Code::kContextFull, "the reply fills the context of " + decimal(capacity) + " tokens",
              "begin a new turn, or use a larger context"};
  }
  turn_ = std::move(turn);
  const size_t fed = turn_.prompt.ids.size() + turn_.before.size();
  return start(turn_.request.max_tokens ? 0 : conversation_.reply_room(fed), engine, speculation);
}

Status Turns::start(int64_t room, Engine& engine, const Speculation* speculation) {
  before_ = speculation ? speculation->tally() : Tally(0);
  passes_ = engine.work().passes;
  engine_ = &engine;
  speculation_ = speculation;
  reply_.emplace(tokenizer_, turn_.request, manifest_.spec.eos_ids, speculation, stop_, clock_);
  ReplyStart begins = {turn_.prompt.ids, turn_.before, turn_.shown, turn_.bound, room};
  if (turn_.chats && !turn_.grammar) begins.tags = chat_ ? chat_->tags() : thinking_tags({});  // a form is all answer
  begins.text = turn_.prompt.text;
  begins.grammar = turn_.grammar.get();
  return reply_->begin(engine, begins);
}

Status Turns::end(const Status& done) {
  const Status failed = turn_.grammar && done.ok() ? turn_.grammar->failure() : Status();
  EDGEDEC_TRY(engine_->end(done));
  EDGEDEC_TRY(failed);
  EDGEDEC_TRY(reply_->failure());
  reply_->end();
  figures_.any = true;
  figures_.params = params_ = turn_.request.params;
  edgedec_result& result = figures_.result;
  result = {};
  result.size = sizeof result;
  result.finish = reply_->finish();
  result.prompt_tokens = static_cast<uint32_t>(turn_.prompt.ids.size() + turn_.before.size());
  result.reused_tokens = static_cast<uint32_t>(reply_->reused());
  result.tokens = static_cast<uint32_t>(reply_->tokens().size());
  result.passes = static_cast<uint32_t>(engine_->work().passes - passes_);
  if (speculation_) {
    const Tally& now = speculation_->tally();
    result.drafted_tokens = static_cast<uint32_t>(now.drafted - before_.drafted);
    result.accepted_tokens = static_cast<uint32_t>(now.accepted - before_.accepted);
  }
  result.dropped_messages = static_cast<uint32_t>(turn_.dropped);
  result.first_token_s = reply_->prefill_s();
  result.decode_s = reply_->decode_s();
  if (turn_.chats) keep();
  return {};
}

// Takes the reply into the conversation.
void Turns::keep() {
  if (turn_.more && reply_->tokens().empty()) return;
  const std::vector<int32_t> tokens = reply_->text_tokens();
  const std::string& whole = reply_->text();
  Prompts& prompts = conversation_.prompts();
  if (turn_.more) prompts.take_back();
  unfinished_.reset();
  if (reply_->finish() != EDGEDEC_FINISH_STOP && !tokens.empty())
    unfinished_ = Unfinished{turn_.prompt, tokens, reply_->shown(), reply_->bound()};
  messages_ = turn_.messages;
  messages_.emplace_back("assistant", whole);
  if (!reply_->exact()) return prompts.forget();
  Prompt kept = turn_.prompt;
  kept.ids.insert(kept.ids.end(), tokens.begin(), tokens.end());
  prompts.remember(kept.text + whole, kept.ids);
}

void Turns::restore(SavedConversation saved) {
  unfinished_ = std::move(saved.unfinished);
  messages_ = std::move(saved.messages);
  params_ = std::move(saved.params);
  conversation_.prompts().forget();
  if (!saved.seen.ids.empty()) conversation_.prompts().remember(std::move(saved.seen.text), saved.seen.ids);
}

}  // namespace edgedec::engine
