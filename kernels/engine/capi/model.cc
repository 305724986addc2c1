#include "engine/capi/model.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/capi/convert.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostTemplateBytes = 1 << 20, kMostStops = 64;
constexpr size_t kLeastRequest = offsetof(edgedec_request, schema);  // programs may be older than forms

// A request of a program that may be older or newer than this engine.
edgedec_request known(const edgedec_request& given) {
  edgedec_request made;
  edgedec_request_init(&made);
  std::memcpy(&made, &given, std::min<size_t>(given.size, sizeof made) / sizeof(void*) * sizeof(void*));  // whole fields
  return made;
}

Status form_of(const edgedec_request& given, ReplyForm* form) {
  if (given.schema && !*given.schema) return {Code::kUsage, "the JSON schema is empty", "hand in one, or NULL"};
  if (given.schema) form->schema = given.schema;
  if (given.choice_count && !given.choices) return {Code::kUsage, "the choices are missing", "hand in texts"};
  for (size_t at = 0; at < given.choice_count; ++at) {
    if (!given.choices[at]) return {Code::kUsage, "a choice is missing", "hand in texts"};
    form->choices.push_back(valid_utf8(given.choices[at]));
  }
  return {};
}

Status no_conversation(const ReplyRequest& request) {
  return request.tools.empty() ? Status() : Status(Code::kUsage, "a text has no tools", "reply to messages with them");
}

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
  turns_ = std::make_unique<Turns>(run_.tokenizer(), template_.get(), run_.manifest(), run_.forward().capacity(), clock_,
                                   stop_);
  return {};
}

Status Model::encode(std::string_view text, bool specials, std::vector<int32_t>* ids) const {
  EDGEDEC_TRY(run_.tokenizer().encode(text, specials, ids));
  if (run_.manifest().tokenizer.add_bos) run_.tokenizer().begin(ids);
  return {};
}

std::string Model::decode(Span<const int32_t> tokens) const { return decoded(run_.tokenizer(), tokens); }

Status Model::requested(const edgedec_request* asked, const edgedec_result* result, ReplyRequest* request) {
  stop_.clear();  // a stop from here on, such as while the prompt is made, is one of this reply
  if (result && result->size < sizeof *result)
    return {Code::kUsage, "the result has no size", "set it to sizeof(edgedec_result)"};
  request->params = preset().sampling;
  request->stops = preset().stops;
  if (!asked) return {};
  if (asked->size < kLeastRequest) return {Code::kUsage, "the request has no size", "call edgedec_request_init first"};
  const edgedec_request own = known(*asked), *given = &own;
  EDGEDEC_TRY(form_of(*given, &request->form));
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
  request->on_call = given->on_call;
  return given->tools ? read_tools(given->tools, &request->tools) : Status();
}

Status Model::reply(Span<const edgedec_message> given, const edgedec_request* asked, edgedec_result* result) {
  ReplyRequest request;
  ChatMessages texts;
  EDGEDEC_TRY(no_template_);
  EDGEDEC_TRY(requested(asked, result, &request));
  for (const edgedec_message& message : given) {
    if (!message.role || !message.content) return {Code::kUsage, "a message has no role or no content", "hand in both"};
    texts.push_back({message.role, valid_utf8(message.content)});
  }
  const char* json = asked ? known(*asked).messages : nullptr;
  if (json && given.size()) return {Code::kUsage, "messages are given twice", "hand them in, or as JSON"};
  if (json) EDGEDEC_TRY(read_chat_messages(json, &texts));
  return compute(std::move(texts), std::move(request), result);
}

Status Model::more(const edgedec_request* asked, edgedec_result* result) {
  ReplyRequest request;
  EDGEDEC_TRY(requested(asked, result, &request));
  EDGEDEC_TRY(run_.make_room_for(request.params, request.form.any()));
  EDGEDEC_TRY(turns_->begin_more(std::move(request), run_.engine(), run_.speculation()));
  return finish(result);
}

Status Model::complete(std::string_view text, const edgedec_request* asked, edgedec_result* result) {
  ReplyRequest request;
  EDGEDEC_TRY(requested(asked, result, &request));
  EDGEDEC_TRY(no_conversation(request));
  return compute(text, std::move(request), result);
}

Status Model::generate(Span<const int32_t> prompt, const edgedec_request* asked, edgedec_result* result) {
  ReplyRequest request;
  EDGEDEC_TRY(requested(asked, result, &request));
  EDGEDEC_TRY(no_conversation(request));
  return compute(prompt, std::move(request), result);
}

template <class Prompt>
Status Model::compute(Prompt prompt, ReplyRequest request, edgedec_result* result) {
  EDGEDEC_TRY(run_.make_room_for(request.params, request.form.any()));
  EDGEDEC_TRY(turns_->begin(std::move(prompt), std::move(request), run_.engine(), run_.speculation()));
  return finish(result);
}

Status Model::finish(edgedec_result* result) {
  EDGEDEC_TRY(turns_->end(run_.engine().run(turns_->listener())));
  if (result) *result = turns_->figures().result;
  return {};
}

Status Model::measure_again() { return run_.measure_again(); }

Status Model::save(const std::string& path) { return save_session(run_, path, turns_->saved()); }

Status Model::restore(const std::string& path) {
  SavedConversation found;
  EDGEDEC_TRY(restore_session(run_, path, this, &found));
  found.params = turns_->saved().params;
  turns_->restore(std::move(found));
  return {};
}

}  // namespace edgedec::engine
