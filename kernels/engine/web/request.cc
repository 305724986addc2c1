#include "engine/web/request.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/decode/passes.h"
#include "core/sampling/check.h"
#include "core/base/utf8_decoder.h"

namespace edgedec::engine {
namespace {

constexpr JsonLimits kRequestLimits = {size_t{64} << 20, 16, size_t{1} << 22};
constexpr int64_t kLeastPass = 16, kMostDrafted = 15;
constexpr size_t kMostStops = 64, kMostCosts = 64;

Status wrong(std::string_view name, std::string_view what) {
  return {Code::kUsage, "'" + std::string(name) + "' is no " + std::string(what), "see edgedec_web.h"};
}

// A whole number of an object, which may be missing.
Status whole(JsonValue object, std::string_view name, int64_t least, int64_t most, int64_t* found) {
  const JsonValue value = object[name];
  if (value.missing() || value.is_null()) return {};
  const int64_t number = value.whole().value_or(least - 1);
  if (number < least || number > most) return wrong(name, "whole number from " + decimal(least) + " to " + decimal(most));
  *found = number;
  return {};
}

Status read_costs(JsonValue list, Points* costs) {
  for (size_t at = 0; at < list.size(); ++at) {
    const JsonValue pair = list.at(at);
    const int64_t tokens = pair.size() == 2 ? pair.at(0).whole().value_or(0) : 0;
    if (tokens < 1 || tokens > kLongestPass || !pair.at(1).number() || at >= kMostCosts) return wrong("costs", "list of costs");
    costs->emplace_back(static_cast<int>(tokens), *pair.at(1).number());
  }
  return list.missing() || list.is_null() || list.is_list() ? Status() : wrong("costs", "list of costs");
}

Status no_tools() {
  return {Code::kUnsupported, "the engine without Python has no tools", "bind the reply to the schema of a call, or run it with Python"};
}

Status read_messages(JsonValue list, ChatMessages* messages) {
  if (!list.is_list()) return wrong("messages", "list");
  for (size_t at = 0; at < list.size(); ++at) {
    if (!list.at(at)["tool_calls"].missing()) return no_tools();
    const auto role = list.at(at)["role"].text(), content = list.at(at)["content"].text();
    if (!role || !content) return {Code::kUsage, "a message has no role or no content", "hand in both"};
    if (*role == "tool") return no_tools();
    messages->push_back({valid_utf8(*role), valid_utf8(*content)});
  }
  return {};
}

Status read_tokens(JsonValue list, std::vector<int32_t>* tokens) {
  if (!list.is_list()) return wrong("tokens", "list of ids");
  for (size_t at = 0; at < list.size(); ++at) {
    const int64_t id = list.at(at).whole().value_or(-1);
    if (id < 0 || id > INT32_MAX) return wrong("tokens", "list of ids");
    tokens->push_back(static_cast<int32_t>(id));
  }
  return {};
}

Status read_prompt(JsonValue root, WebRequest* request) {
  if (!root["messages"].missing()) {
    request->kind = WebRequest::kMessages;
    return read_messages(root["messages"], &request->messages);
  }
  if (const auto text = root["text"].text()) {
    request->kind = WebRequest::kText;
    request->text = valid_utf8(*text);
    return {};
  }
  if (!root["tokens"].missing()) {
    request->kind = WebRequest::kTokens;
    return read_tokens(root["tokens"], &request->tokens);
  }
  if (root["continue"].flag() != true)
    return {Code::kUsage, "there is nothing to reply to", "hand in messages, text, tokens or continue"};
  request->kind = WebRequest::kMore;
  return {};
}

// A whole number, or its digits as a text, for those that JavaScript's numbers cannot tell apart.
Status read_seed(JsonValue value, uint64_t* seed) {
  if (value.missing() || value.is_null()) return {};
  const std::string digits = value.text() ? std::string(*value.text()) : decimal(value.whole().value_or(-1));
  uint64_t found = 0;
  bool sound = !digits.empty() && digits.size() <= 20;
  for (char digit : digits) {
    const auto next = static_cast<uint64_t>(digit - '0');
    sound = sound && next <= 9 && found <= (UINT64_MAX - next) / 10;
    found = 10 * found + next;
  }
  if (!sound) return wrong("seed", "whole number from 0 to 18446744073709551615");
  *seed = found;
  return {};
}

Status read_params(JsonValue root, DrawParams* params) {
  const JsonValue sampling = root["sampling"], bias = root["logit_bias"];
  if (!sampling.missing() && !sampling.is_object()) return wrong("sampling", "object");
  if (sampling["temperature"].number() == 0.0) *params = {};  // as SamplingParams.over
  if (const Status read = read_sampling(sampling, params); !read.ok())
    return {Code::kUsage, "sampling " + read.message(), read.hint()};
  EDGEDEC_TRY(read_seed(root["seed"], &params->seed));
  for (size_t at = 0; at < bias.size(); ++at) {
    const JsonValue pair = bias.at(at);
    const int64_t id = pair.size() == 2 ? pair.at(0).whole().value_or(-1) : -1;
    if (id < 0 || id > INT32_MAX || !pair.at(1).number()) return wrong("logit_bias", "list of ids and values");
    params->logit_bias.emplace_back(static_cast<int32_t>(id), *pair.at(1).number());
  }
  return check_params(params);
}

Status read_form(JsonValue root, ReplyForm* form) {
  const JsonValue schema = root["schema"], choices = root["choices"];
  if (!schema.missing() && !schema.is_null()) {
    if (schema.text().value_or("").empty()) return wrong("schema", "text of a JSON schema");
    form->schema = *schema.text();
  }
  if (!choices.missing() && !choices.is_null() && !choices.is_list()) return wrong("choices", "list of texts");
  for (size_t at = 0; at < choices.size(); ++at) {
    if (!choices.at(at).text()) return wrong("choices", "list of texts");
    form->choices.push_back(valid_utf8(*choices.at(at).text()));
  }
  return {};
}

}  // namespace

Status read_exits(std::string_view text, int64_t layers, std::vector<int>* exits) {
  Json json;
  if (!json.parse(text, kRequestLimits)) return wrong("exits", "ascending list of layers");
  const JsonValue list = json.root()["exits"];
  for (size_t at = 0; at < list.size(); ++at) {
    const int64_t exit = list.at(at).whole().value_or(0);
    if (exit <= (exits->empty() ? 0 : exits->back()) || exit > layers) return wrong("exits", "ascending list of layers");
    exits->push_back(static_cast<int>(exit));
  }
  return exits->empty() || exits->back() != layers ? wrong("exits", "ascending list of layers") : Status();
}

Status read_options(std::string_view text, WebOptions* options) {
  Json json;
  if (!json.parse(text, kRequestLimits) || !json.root().is_object()) return {Code::kUsage, "the options are no JSON object", "hand in one"};
  const JsonValue root = json.root();
  options->folder = std::string(root["folder"].text().value_or(""));
  EDGEDEC_TRY(whole(root, "context", 2, INT32_MAX, &options->context));
  EDGEDEC_TRY(whole(root, "max_pass", kLeastPass, kLongestPass, &options->max_pass));
  EDGEDEC_TRY(whole(root, "draft_tokens", 1, kMostDrafted, &options->draft_tokens));
  EDGEDEC_TRY(whole(root, "memory", 0, INT64_MAX / 2, &options->memory));
  EDGEDEC_TRY(read_costs(root["costs"], &options->costs));
  const JsonValue draft = root["draft"];
  if (!draft.missing() && !draft.text()) return wrong("draft", "text");
  options->draft = std::string(draft.text().value_or("auto"));
  return {};
}

Status read_request(std::string_view text, const Preset& preset, WebRequest* request) {
  Json json;
  if (!json.parse(text, kRequestLimits) || !json.root().is_object()) return {Code::kUsage, "the request is no JSON object", "hand in one"};
  const JsonValue root = json.root(), stops = root["stop"];
  if (root["tools"].size()) return no_tools();
  EDGEDEC_TRY(read_prompt(root, request));
  request->reply.params = preset.sampling;
  request->reply.stops = preset.stops;
  EDGEDEC_TRY(read_params(root, &request->reply.params));
  EDGEDEC_TRY(whole(root, "max_tokens", 0, INT32_MAX, &request->reply.max_tokens));
  for (size_t at = 0; at < stops.size(); ++at) {
    if (!stops.at(at).text() || at >= kMostStops) return wrong("stop", "list of at most 64 texts");
    request->reply.stops.push_back(valid_utf8(*stops.at(at).text()));
  }
  request->reply.drafts = root["draft"].flag().value_or(true);
  return read_form(root, &request->reply.form);
}

void write_costs(const Points& costs, JsonWriter* out) {
  out->begin_list();
  for (const auto& [tokens, seconds] : costs) out->begin_list().whole(tokens).real(seconds).end_list();
  out->end_list();
}

}  // namespace edgedec::engine
