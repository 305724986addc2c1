#include "engine/capi/turns.h"

#include <algorithm>

#include "core/base/format.h"

namespace edgedec::engine {

// Checks the order of messages, and puts the preset's system message in front where none is named.
Status Turns::checked(ChatMessages* messages) const {
  const bool named = !messages->empty() && messages->front().role == "system";
  for (size_t at = 0; at < messages->size(); ++at) {
    const std::string& role = (*messages)[at].role;
    if (role == "system" && at) return {Code::kUsage, "a system message stands after another message", "put it first"};
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      return {Code::kUsage, "unknown role " + quoted(role), "there are system, user, assistant, tool"};
  }
  if (named && messages->front().content.empty()) messages->erase(messages->begin());
  if (!named && manifest_.preset.system) messages->insert(messages->begin(), {"system", *manifest_.preset.system});
  if (messages->empty() || (messages->back().role != "user" && messages->back().role != "tool"))
    return {Code::kUsage, "there is no message to answer", "the last one must be the user's, or the result of a call"};
  return {};
}

Status Turns::fit(Turn* turn, size_t said) {
  ChatMessages& messages = turn->messages;
  std::vector<Message> given;
  for (const ChatMessage& one : messages) given.push_back({one.role, one.content, &one.fields});
  EDGEDEC_TRY(conversation_.fit({given, turn->request.tools}, turn->request.max_tokens, said, &turn->prompt, &turn->dropped));
  const auto first = messages.begin() + static_cast<long>(messages[0].role == "system");
  messages.erase(first, first + static_cast<long>(turn->dropped));
  return {};
}

// Finds the form of calls of a conversation with tools, and the control tokens that its reader has to see.
Status Turns::find_calls(Turn* turn) const {
  const auto& tools = turn->request.tools;
  const auto asks = [](const ChatMessage& message) { return message.has("tool_calls"); };
  if (tools.empty() && std::none_of(turn->messages.begin(), turn->messages.end(), asks)) return {};
  constexpr const char* kHint = "leave the tools out, or use a model with another chat template";
  if (!chat_) return {Code::kUnsupported, "this model has no chat template, and so no tools", kHint};
  const ToolForms* forms;
  EDGEDEC_TRY(chat_->tool_forms(&forms));
  const CallFamily* family = forms->family;
  if (family && !family->call)
    return {Code::kUnsupported, "this engine reads no tool calls of the family " + std::string(family->name), "run the model with Python"};
  if (tools.empty()) return {};
  if (turn->request.form.any()) return {Code::kUnsupported, "a form and tools are given", "ask for one of both, or run it with Python"};
  if (!forms->declares) return {Code::kUnsupported, "the chat template of this model knows no tools", kHint};
  if (!family) return {Code::kUnsupported, "the form of this model's tool calls is not known", kHint};
  turn->family = family;
  std::vector<std::string_view> texts = family->control;
  const ThinkingTags tags = chat_->tags();
  texts.insert(texts.end(), {tags.begin, tags.end, tags.begin.substr(0, tags.begin.rfind("thought"))});
  for (const auto& [text, id] : tokenizer_.control())
    if (std::find(texts.begin(), texts.end(), text) != texts.end()) turn->spelled.push_back(id);
  return {};
}

Status Turns::begin(ChatMessages messages, ReplyRequest request, Engine& engine, const Speculation* speculation) {
  EDGEDEC_TRY(checked(&messages));
  Turn turn;
  turn.chats = true;
  turn.messages = std::move(messages);
  turn.request = std::move(request);
  EDGEDEC_TRY(find_calls(&turn));
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
  EDGEDEC_TRY(find_calls(&turn));
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
  begins.family = turn_.family;
  begins.spelled = turn_.spelled;
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
  if (turn_.family) tell_calls(&result);
  if (turn_.chats) keep();
  return {};
}

// Hands out the calls that the whole reply asks for.
void Turns::tell_calls(edgedec_result* result) {
  const WholeReply whole = reply_->read();
  const int64_t first = first_call(turn_.messages);
  for (const ToolCall& one : whole.calls) {
    const std::string id = call_id(first + result->calls++);
    const edgedec_call told = {id.c_str(), one.name.c_str(), one.arguments.c_str()};
    if (turn_.request.on_call) turn_.request.on_call(turn_.request.user, &told);
  }
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
  messages_.push_back(turn_.family ? reply_message(reply_->read(), first_call(turn_.messages)) : ChatMessage{"assistant", whole});
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
