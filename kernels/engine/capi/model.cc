#include "engine/capi/model.h"

#include <algorithm>
#include <cstring>

#include "engine/base/files.h"
#include "engine/base/format.h"
#include "engine/capi/convert.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostTemplateBytes = 1 << 20, kMostStops = 64;

}  // namespace

Status Model::prepare(const RunConfig& config) {
  EDGEDEC_TRY(run_.prepare(config));
  return open_template();
}

Status Model::open_template() {
  const Manifest& manifest = run_.manifest();
  if (!manifest.tokenizer.chat_template) return {};
  EDGEDEC_TRY(read_file(path_in(run_.folder(), kTemplateFile), kMostTemplateBytes, &source_));
  const Status read = read_file(path_in(run_.folder(), kTemplateProgram), kMostTemplateBytes, &program_);
  if (read.code() == Code::kNotFound) {
    no_template_ = {Code::kUnsupported, "the bundle has no " + std::string(kTemplateProgram), "export the model again"};
    return {};
  }
  EDGEDEC_TRY(read);
  const TokenizerInfo& info = manifest.tokenizer;
  const std::string_view bos = info.bos_id < 0 ? "" : run_.tokenizer().spelling(info.bos_id);
  const std::string_view eos = info.eos_ids.empty() ? "" : run_.tokenizer().spelling(info.eos_ids[0]);
  template_ = std::make_unique<ChatTemplate>();
  return ChatTemplate::open(program_, source_, bos, eos, template_.get());
}

Status Model::start() {
  EDGEDEC_TRY(run_.start());
  conversation_ = std::make_unique<Conversation>(run_.tokenizer(), template_.get(), run_.forward().capacity());
  params_ = preset().sampling;
  return {};
}

Status Model::encode(std::string_view text, bool specials, std::vector<int32_t>* ids) const {
  EDGEDEC_TRY(run_.tokenizer().encode(text, specials, ids));
  if (run_.manifest().tokenizer.add_bos) run_.tokenizer().begin(ids);
  return {};
}

std::string Model::decode(Span<const int32_t> tokens) const { return decoded(run_.tokenizer(), tokens); }

Status Model::requested(const edgedec_request* given, const edgedec_result* result, ReplyRequest* request) {
  stop_.clear();  // a stop from here on, such as while the prompt is made, is one of this reply
  if (result && result->size < sizeof *result)
    return {Code::kUsage, "the result has no size", "set it to sizeof(edgedec_result)"};
  request->params = preset().sampling;
  request->stops = preset().stops;
  if (!given) return {};
  if (given->size < sizeof *given) return {Code::kUsage, "the request has no size", "call edgedec_request_init first"};
  if (given->sampling) EDGEDEC_TRY(params_of(*given->sampling, &request->params));
  if (given->stop_count && (!given->stops || given->stop_count > kMostStops))
    return {Code::kUsage, decimal(uint64_t{given->stop_count}) + " stop strings are not possible", "hand in at most 64"};
  for (size_t at = 0; at < given->stop_count; ++at) {
    if (!given->stops[at]) return {Code::kUsage, "a stop string is missing", "hand in texts"};
    request->stops.emplace_back(given->stops[at]);
  }
  request->max_tokens = given->max_tokens;
  request->on_token = given->on_token;
  request->on_prompt = given->on_prompt;
  request->user = given->user;
  return {};
}

Status Model::conversation_of(Span<const edgedec_message> given, Texts* texts) const {
  for (size_t at = 0; at < given.size(); ++at) {
    const char* role = given[at].role;
    if (!role || !given[at].content) return {Code::kUsage, "a message has no role or no content", "hand in both"};
    const bool system = !std::strcmp(role, "system");
    if (system && at) return {Code::kUsage, "a system message stands after another message", "put it first"};
    if (!system && std::strcmp(role, "user") && std::strcmp(role, "assistant"))
      return {Code::kUsage, "unknown role " + quoted(role), "there are system, user, assistant"};
    if (!system || *given[at].content) texts->emplace_back(role, valid_utf8(given[at].content));
  }
  const bool named = !given.empty() && !std::strcmp(given[0].role, "system");
  if (!named && preset().system) texts->emplace(texts->begin(), "system", *preset().system);
  if (texts->empty() || texts->back().first != "user")
    return {Code::kUsage, "there is no message to answer", "the last one must be the user's"};
  return {};
}

Status Model::reply(Span<const edgedec_message> given, const edgedec_request* asked, edgedec_result* result) {
  ReplyRequest request;
  Texts texts;
  EDGEDEC_TRY(no_template_);
  EDGEDEC_TRY(requested(asked, result, &request));
  EDGEDEC_TRY(conversation_of(given, &texts));
  EDGEDEC_TRY(run_.make_room_for(request.params));
  std::vector<Message> messages;
  for (const auto& [role, content] : texts) messages.push_back({role, content});
  Prompt prompt;
  size_t dropped = 0;
  EDGEDEC_TRY(conversation_->fit(messages, request.max_tokens, &prompt, &dropped));
  const int64_t room = request.max_tokens ? 0 : conversation_->reply_room(prompt.ids.size());
  Prompt kept = prompt;
  EDGEDEC_TRY(compute(request, prompt.ids, room, &kept, nullptr));
  figures_.result.dropped_messages = static_cast<uint32_t>(dropped);
  if (result) *result = figures_.result;
  const size_t first = texts[0].first == "system";
  texts.erase(texts.begin() + static_cast<long>(first), texts.begin() + static_cast<long>(first + dropped));
  texts.emplace_back("assistant", kept.text.substr(std::min(prompt.text.size(), kept.text.size())));
  messages_ = std::move(texts);
  if (kept.ids.empty()) conversation_->prompts().forget();
  else conversation_->prompts().remember(std::move(kept.text), kept.ids);
  return {};
}

Status Model::complete(std::string_view text, const edgedec_request* asked, edgedec_result* result) {
  ReplyRequest request;
  std::vector<int32_t> prompt;
  EDGEDEC_TRY(requested(asked, result, &request));
  EDGEDEC_TRY(run_.make_room_for(request.params));
  EDGEDEC_TRY(conversation_->of_text(text, &prompt));
  Prompt kept;
  return compute(request, prompt, 0, &kept, result);
}

Status Model::generate(Span<const int32_t> prompt, const edgedec_request* asked, edgedec_result* result) {
  ReplyRequest request;
  EDGEDEC_TRY(requested(asked, result, &request));
  EDGEDEC_TRY(run_.make_room_for(request.params));
  Prompt kept;
  return compute(request, prompt, 0, &kept, result);
}

Status Model::compute(const ReplyRequest& request, Span<const int32_t> prompt, int64_t room, Prompt* kept,
                      edgedec_result* result) {
  const Tally before = run_.speculation() ? run_.speculation()->tally() : Tally(0);
  const int64_t passes = run_.engine().work().passes;
  Reply reply(run_.tokenizer(), request, run_.manifest().spec.eos_ids, run_.speculation(), stop_, clock_);
  EDGEDEC_TRY(reply.run(run_.engine(), prompt, room));
  note(reply, request, prompt.size(), before, passes);
  if (result) *result = figures_.result;
  params_ = request.params;
  kept->text += reply.text();
  if (!reply.exact()) {
    kept->ids.clear();
    return {};
  }
  const std::vector<int32_t> tokens = reply.text_tokens();
  kept->ids.insert(kept->ids.end(), tokens.begin(), tokens.end());
  return {};
}

void Model::note(const Reply& reply, const ReplyRequest& request, size_t prompt, const Tally& before, int64_t passes) {
  figures_.any = true;
  figures_.params = request.params;
  edgedec_result& result = figures_.result;
  result = {};
  result.size = sizeof result;
  result.finish = reply.finish();
  result.prompt_tokens = static_cast<uint32_t>(prompt);
  result.reused_tokens = static_cast<uint32_t>(reply.reused());
  result.tokens = static_cast<uint32_t>(reply.tokens().size());
  result.passes = static_cast<uint32_t>(run_.engine().work().passes - passes);
  if (run_.speculation()) {
    const Tally& now = run_.speculation()->tally();
    result.drafted_tokens = static_cast<uint32_t>(now.drafted - before.drafted);
    result.accepted_tokens = static_cast<uint32_t>(now.accepted - before.accepted);
  }
  result.first_token_s = reply.prefill_s();
  result.decode_s = reply.decode_s();
}

Status Model::measure_again() { return run_.measure_again(); }

Status Model::save(const std::string& path) { return save_session(run_, path, {messages_, conversation_->prompts().seen(), params_}); }

Status Model::restore(const std::string& path) {
  SavedConversation found;
  EDGEDEC_TRY(restore_session(run_, path, this, &found));
  messages_ = std::move(found.messages);
  conversation_->prompts().forget();
  conversation_->prompts().remember(std::move(found.seen.text), found.seen.ids);
  return {};
}

}  // namespace edgedec::engine
