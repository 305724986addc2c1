#include "engine/capi/chat_message.h"

#include <algorithm>

#include "core/base/format.h"
#include "engine/text/call_families.h"

namespace edgedec::engine {
namespace {

constexpr const char* kHint = "as in {\"role\": \"user\", \"content\": \"Hello!\"}";
constexpr const char* kCallHint =
    "as in {\"id\": \"call1\", \"type\": \"function\", \"function\": {\"name\": \"now\", \"arguments\": \"{}\"}}";
constexpr const char* kToolHint =
    "as in {\"type\": \"function\", \"function\": {\"name\": \"now\", \"parameters\": {\"type\": \"object\"}}}";
constexpr std::string_view kFields[] = {"role",         "content",           "name",     "tool_calls",
                                        "tool_call_id", "reasoning_content", "reasoning"};

bool left_out(JsonValue value) { return value.missing() || value.is_null() || (value.is_list() && !value.size()); }

// A text of a message, which may be left out.
Status field_text(JsonValue value, std::string_view name, std::string* text) {
  text->clear();
  if (left_out(value)) return {};
  if (!value.text()) return {Code::kUsage, std::string(name) + " of a message is no text", kHint};
  *text = whole_text(*value.text());
  return {};
}

// The content of a message: a text, or a list of parts that are texts.
Status content_of(JsonValue value, std::string* content) {
  if (!value.is_list()) return field_text(value, "content", content);
  content->clear();
  for (size_t at = 0; at < value.size(); ++at) {
    const auto kind = value.at(at)["type"].text(), text = value.at(at)["text"].text();
    if (kind != "text" || !text)
      return {Code::kUnsupported, "this engine reads text alone, and a part of a message is " + quoted(kind.value_or("none")), kHint};
    *content += whole_text(*text);
  }
  return {};
}

// Arguments as templates get them: as values, or as text that is no JSON object.
Status arguments_of(JsonValue given, PlainValue* arguments) {
  if (given.is_object()) return plain_value(given, arguments);
  if (!left_out(given) && !given.text()) return {Code::kUsage, "the arguments of a tool call are no text", kCallHint};
  std::string text = stripped(whole_text(given.text().value_or("")));
  if (text.empty()) text = "{}";
  Json json;
  *arguments = PlainValue::of(text);
  return json.parse(text, kPlainLimits) && json.root().is_object() ? plain_value(json.root(), arguments) : Status();
}

Status call_of(JsonValue given, PlainValue* call) {
  const JsonValue function = given["function"];
  if (function["name"].text().value_or("").empty()) return {Code::kUsage, "a message has a tool call without a function", kCallHint};
  std::string id;
  EDGEDEC_TRY(field_text(given["id"], "id of a call", &id));
  PlainValue arguments, called = PlainValue::object();
  EDGEDEC_TRY(arguments_of(function["arguments"], &arguments));
  called.set("name", PlainValue::of(whole_text(*function["name"].text())));
  called.set("arguments", std::move(arguments));
  *call = PlainValue::object();
  call->set("id", PlainValue::of(id));
  call->set("type", PlainValue::of("function"));
  call->set("function", std::move(called));
  return {};
}

Status calls_of(JsonValue given, PlainValue* calls) {
  *calls = {};
  calls->kind = PlainValue::Kind::kList;
  if (left_out(given)) return {};
  if (!given.is_list()) return {Code::kUsage, "tool_calls of a message are no list", kCallHint};
  calls->items.resize(given.size());
  for (size_t at = 0; at < given.size(); ++at) EDGEDEC_TRY(call_of(given.at(at), &calls->items[at]));
  return {};
}

Status message_of(JsonValue given, ChatMessage* message) {
  if (!given.is_object()) return {Code::kUsage, "a message is no object", kHint};
  for (size_t at = 0; at < given.size(); ++at) {
    if (!left_out(given.at(at)) && std::find(std::begin(kFields), std::end(kFields), given.at(at).key()) == std::end(kFields))
      return {Code::kUsage, "a message has no field " + quoted(given.at(at).key()), kHint};
  }
  std::string name, id, reasoning;
  PlainValue calls;
  if (!given["role"].text()) return {Code::kUsage, "a message has no role", kHint};
  message->role = *given["role"].text() == "developer" ? "system" : whole_text(*given["role"].text());
  EDGEDEC_TRY(calls_of(given["tool_calls"], &calls));
  if (left_out(given["content"]) && calls.items.empty())
    return {Code::kUsage, "a message has no content", kHint};
  EDGEDEC_TRY(content_of(given["content"], &message->content));
  const JsonValue thoughts = given[left_out(given["reasoning_content"]) ? "reasoning" : "reasoning_content"];
  EDGEDEC_TRY(field_text(thoughts, "reasoning_content", &reasoning));
  EDGEDEC_TRY(field_text(given["name"], "name", &name));
  EDGEDEC_TRY(field_text(given["tool_call_id"], "tool_call_id", &id));
  if (message->role != "assistant" && (!calls.items.empty() || !reasoning.empty()))
    return {Code::kUsage, "a message of role " + quoted(message->role) + " has no tool calls and no reasoning", kHint};
  if (message->role != "tool" && !id.empty())
    return {Code::kUsage, "a message of role " + quoted(message->role) + " answers no tool call", "use role \"tool\""};
  message->fields = PlainValue::object();
  if (!reasoning.empty()) message->fields.set("reasoning_content", PlainValue::of(reasoning));
  if (!name.empty()) message->fields.set("name", PlainValue::of(name));
  if (!calls.items.empty()) message->fields.set("tool_calls", std::move(calls));
  if (!id.empty()) message->fields.set("tool_call_id", PlainValue::of(id));
  return {};
}

}  // namespace

Status read_chat_messages(JsonValue list, ChatMessages* messages) {
  if (!list.is_list()) return {Code::kUsage, "the messages are no list", kHint};
  messages->resize(list.size());
  for (size_t at = 0; at < list.size(); ++at) EDGEDEC_TRY(message_of(list.at(at), &(*messages)[at]));
  return {};
}

Status read_chat_messages(std::string_view text, ChatMessages* messages) {
  Json json;
  if (!json.parse(text, kPlainLimits)) return {Code::kUsage, "the messages are no JSON, or too large", "hand in a list of messages"};
  return read_chat_messages(json.root(), messages);
}

void write_message(const ChatMessage& message, JsonWriter* out) {
  out->begin_object().key("role").text(message.role).key("content").text(message.content);
  for (size_t at = 0; at < message.fields.items.size(); ++at) {
    const PlainValue& field = message.fields.items[at];
    out->key(message.fields.keys[at]);
    if (!field.is(PlainValue::Kind::kList)) {
      out->raw(plain_json(field));
      continue;
    }
    out->begin_list();
    for (PlainValue call : field.items) {  // arguments are text there
      PlainValue function = *call.find("function");
      const PlainValue& given = *function.find("arguments");
      if (!given.is(PlainValue::Kind::kText)) function.set("arguments", PlainValue::of(plain_json(PlainValue(given))));
      call.set("function", std::move(function));
      out->raw(plain_json(call));
    }
    out->end_list();
  }
  out->end_object();
}

Status read_tools(std::string_view text, std::vector<PlainValue>* tools) {
  Json json;
  if (!json.parse(text, kPlainLimits) || !json.root().is_list())
    return {Code::kUsage, "the tools are no JSON list, or too large", "hand in a list of functions in OpenAI's form"};
  tools->resize(json.root().size());
  for (size_t at = 0; at < tools->size(); ++at) {
    const JsonValue given = json.root().at(at), function = given["function"];
    const std::string_view name = function["name"].text().value_or("");
    const bool plain = given["type"].missing() || given["type"].text() == std::string_view("function");
    const JsonValue parameters = function["parameters"];
    if (!plain || name.empty() || !(parameters.missing() || parameters.is_null() || parameters.is_object()))
      return {Code::kUsage, "the tool at place " + decimal(uint64_t{at}) + " is none", kToolHint};
    if (function["strict"].flag().value_or(false))
      return {Code::kUnsupported, "the tool " + quoted(name) + " is strict, and this engine binds no arguments to their schema",
              "leave \"strict\" out, or run the model with Python"};
    for (size_t other = 0; other < at; ++other)
      if ((*tools)[other].find("function")->find("name")->text == whole_text(name))
        return {Code::kUsage, "two tools have the name " + quoted(name), "rename one of them"};
    EDGEDEC_TRY(plain_value(given, &(*tools)[at]));
  }
  return {};
}

ChatMessage reply_message(const WholeReply& reply, int64_t first) {
  ChatMessage made = {"assistant", reply.content, PlainValue::object()};
  if (!reply.thought.empty()) made.fields.set("reasoning_content", PlainValue::of(reply.thought));
  PlainValue calls;
  calls.kind = PlainValue::Kind::kList;
  for (const ToolCall& one : reply.calls) {
    Json json;
    PlainValue call = PlainValue::object(), function = PlainValue::object(), arguments;
    const bool whole = json.parse(one.arguments, kPlainLimits) && json.root().is_object() && plain_value(json.root(), &arguments).ok();
    function.set("name", PlainValue::of(one.name));
    function.set("arguments", whole ? arguments : PlainValue::of(one.arguments));
    call.set("id", PlainValue::of(call_id(first + static_cast<int64_t>(calls.items.size()))));
    call.set("type", PlainValue::of("function"));
    call.set("function", std::move(function));
    calls.items.push_back(std::move(call));
  }
  if (!calls.items.empty()) made.fields.set("tool_calls", std::move(calls));
  return made;
}

int64_t first_call(const ChatMessages& messages) {
  int64_t first = 0;
  for (const ChatMessage& message : messages) {
    const PlainValue* calls = message.fields.find("tool_calls");
    for (size_t at = 0; calls && at < calls->items.size(); ++at) {
      const PlainValue* id = calls->items[at].find("id");
      const std::string_view text = id ? std::string_view(id->text) : std::string_view();
      if (text.size() < 9 || text.size() > 13 || text.substr(0, 4) != "call") continue;
      int64_t number = 0;
      const bool digits = std::all_of(text.begin() + 4, text.end(), [&](char one) {
        number = 10 * number + (one - '0');
        return one >= '0' && one <= '9';
      });
      if (digits) first = std::max(first, number + 1);
    }
  }
  return first;
}

std::string call_id(int64_t number) {
  const std::string digits = decimal(number);
  return "call" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

}  // namespace edgedec::engine
