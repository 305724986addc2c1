#include "engine/text/tool_forms.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "engine/text/chat_template.h"

namespace edgedec::engine {
namespace {

constexpr const char *kName = "probe_function", *kKey = "probe_key", *kProbe = "probe_value", *kQuestion = "probe_question";
constexpr const char* kCut = "probe_cut";
constexpr const char* kHint = "leave the tools out, or use a model whose template writes them";

PlainValue object_of(std::initializer_list<std::pair<const char*, PlainValue>> fields) {
  PlainValue made = PlainValue::object();
  for (const auto& [key, value] : fields) made.set(key, value);
  return made;
}

PlainValue list_of(PlainValue item) {
  PlainValue made;
  made.kind = PlainValue::Kind::kList;
  made.items.push_back(std::move(item));
  return made;
}

PlainValue probe_tool() {
  const PlainValue property = object_of({{"type", PlainValue::of("string")}, {"description", PlainValue::of("probe")}});
  const PlainValue parameters =
      object_of({{"type", PlainValue::of("object")}, {"properties", object_of({{kKey, property}})}});
  return object_of({{"type", PlainValue::of("function")},
                    {"function", object_of({{"name", PlainValue::of(kName)},
                                            {"description", PlainValue::of("probe_description")},
                                            {"parameters", parameters}})}});
}

// A tool as templates see it: with description and parameters, and without `strict`.
PlainValue complete_tool(const PlainValue& tool) {
  const PlainValue* given = tool.find("function");
  if (!given || !given->is(PlainValue::Kind::kObject)) return tool;
  PlainValue made = object_of({{"type", PlainValue::of("function")}});
  for (size_t at = 0; at < tool.items.size(); ++at) made.set(tool.keys[at], tool.items[at]);
  const PlainValue none = object_of({{"type", PlainValue::of("object")}, {"properties", PlainValue::object()}});
  PlainValue function = object_of({{"name", PlainValue()}, {"description", PlainValue::of("")}, {"parameters", none}});
  for (size_t at = 0; at < given->items.size(); ++at)
    if (!given->items[at].is(PlainValue::Kind::kNull) && given->keys[at] != "strict") function.set(given->keys[at], given->items[at]);
  made.set("function", std::move(function));
  return made;
}

// The fields of a turn that calls the probe, with these arguments.
PlainValue call_turn(PlainValue arguments) {
  const PlainValue function = object_of({{"name", PlainValue::of(kName)}, {"arguments", std::move(arguments)}});
  const PlainValue call =
      object_of({{"id", PlainValue::of("probe0001")}, {"type", PlainValue::of("function")}, {"function", function}});
  return object_of({{"tool_calls", list_of(call)}});
}

// Whether a family reads the probe's call first in a text.
bool reads(const CallFamily& family, std::string_view text) {
  const PlainValue tool = object_of({{"function", object_of({{"name", PlainValue::of(kName)}})}});
  CallScanner scanner;
  scanner.add(text);
  scanner.end();
  CallParser(family).run({&scanner, {&tool, 1}});
  if (scanner.calls().empty() || scanner.calls()[0].name != kName) return false;
  Json json;
  const bool parsed = json.parse(scanner.calls()[0].arguments);
  return parsed && json.root().size() == 1 && json.root()[kKey].text() == std::string_view(kProbe);
}

class Probing {
 public:
  explicit Probing(const ChatTemplate& chat) : chat_(chat) {}

  // The template's text; nothing where it fails.
  Status shown(const PlainValue* turn, bool tools, std::string* text) const {
    const PlainValue tool = probe_tool();
    const PlainValue answer = object_of({{"name", PlainValue::of(kName)}, {"tool_call_id", PlainValue::of("probe0001")}});
    std::vector<Message> messages = {{"user", kQuestion}};
    if (turn) messages.push_back({"assistant", "", turn});
    if (turn) messages.push_back({"tool", "probe_result", &answer});
    const Status status = chat_.render_probe({messages, {&tool, tools}}, text);
    if (status.code() != Code::kBadFile) return status;
    text->clear();
    return {};
  }

 private:
  const ChatTemplate& chat_;
};

// The family that reads the probe's call, first among those that the source names.
const CallFamily* family_of(const std::string& shown, const std::string& prompt, std::string_view source) {
  size_t shared = std::mismatch(shown.begin(), shown.begin() + static_cast<long>(std::min(shown.size(), prompt.size())),
                                prompt.begin()).first - shown.begin();
  while (shared && shared < shown.size() && !begins_character(shown[shared])) --shared;
  const size_t question = shown.rfind(kQuestion);
  const std::string_view samples[] = {std::string_view(shown).substr(shared),
                                      std::string_view(shown).substr(question == shown.npos ? 0 : question + 14)};
  for (const bool named : {true, false}) {
    for (const CallFamily& family : call_families()) {
      if (family.knows(source) != named) continue;
      if (!family.call && named) return &family;
      if (family.call && (reads(family, samples[0]) || reads(family, samples[1]))) return &family;
    }
  }
  return nullptr;
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

bool has_calls(const Message& message) { return message.fields && message.fields->find("tool_calls"); }

// Hands name and arguments of each call of a message to `act`.
template <class Act>
void each_call(PlainValue* fields, Act act) {
  for (size_t at = 0; at < fields->items.size(); ++at) {
    if (fields->keys[at] != "tool_calls") continue;
    for (PlainValue& call : fields->items[at].items)
      for (size_t one = 0; one < call.keys.size(); ++one)
        if (call.keys[one] == "function") act(&call.items[one]);
  }
}

}  // namespace

bool uses_tools(const Talk& talk) {
  return !talk.tools.empty() || std::any_of(talk.messages.begin(), talk.messages.end(), has_calls);
}

Status ToolForms::check(const Talk& talk) const {
  if (!talk.tools.empty() && !declares) return {Code::kUnsupported, "the chat template of this model knows no tools", kHint};
  if (!calls && !(family && family->write) && std::any_of(talk.messages.begin(), talk.messages.end(), has_calls))
    return {Code::kUnsupported, "the chat template of this model knows no tool calls", kHint};
  return {};
}

Status find_tool_forms(const ChatTemplate& chat, std::string_view source, ToolForms* forms) {
  const Probing probing(chat);
  std::string prompt, shown;
  *forms = {};
  EDGEDEC_TRY(probing.shown(nullptr, true, &shown));
  forms->declares = shown.find(kName) != shown.npos;
  for (const bool text : {false, true}) {
    const PlainValue values = object_of({{kKey, PlainValue::of(kProbe)}});
    const PlainValue turn = call_turn(text ? PlainValue::of(plain_json(values)) : values), cut = call_turn(PlainValue::of(kCut));
    EDGEDEC_TRY(probing.shown(&turn, forms->declares, &shown));
    const bool whole = shown.find(kProbe) != shown.npos && shown.find(kKey) != shown.npos;
    if (!whole || count_of(shown, kName) <= size_t{forms->declares}) continue;
    EDGEDEC_TRY(probing.shown(nullptr, forms->declares, &prompt));
    forms->family = family_of(shown, prompt, source);
    forms->calls = true;
    forms->text = text;
    // Where such arguments need what is not known here, a conversation that has some says so.
    const Status refused = probing.shown(&cut, forms->declares, &shown);
    forms->cut = !refused.ok() || shown.find(kCut) != shown.npos;
    return {};
  }
  forms->family = call_family(source);
  return {};
}

ToolTalk::ToolTalk(const Talk& talk, const ToolForms* forms, std::string_view source) {
  for (const PlainValue& tool : talk.tools) tools_.push_back(complete_tool(tool));
  contents_.reserve(talk.messages.size() + 1);
  fields_.reserve(talk.messages.size() + 1);
  for (const Message& message : talk.messages) {
    contents_.emplace_back(message.content);
    fields_.push_back(message.fields ? *message.fields : PlainValue::object());
    messages_.push_back({message.role, {}});
    if (forms) ready(contents_.size() - 1, *forms);
  }
  if (!tools_.empty() && source.find("message['tools']") != source.npos) into_system_message();
  for (size_t at = 0; at < messages_.size(); ++at) messages_[at] = {messages_[at].role, contents_[at], &fields_[at]};
}

// Brings the calls of a message into the form that the template takes.
void ToolTalk::ready(size_t at, const ToolForms& forms) {
  const auto change = [&](auto act) {
    each_call(&fields_[at], [&](PlainValue* function) {
      const PlainValue* given = function->find("arguments");
      if (given) function->set("arguments", act(PlainValue(*given)));
    });
  };
  if (!forms.cut) {
    change([](PlainValue given) { return given.is(PlainValue::Kind::kText) ? object_of({{"arguments", given}}) : given; });
  }
  if (forms.calls) {
    if (forms.text)
      change([](PlainValue given) { return given.is(PlainValue::Kind::kText) ? given : PlainValue::of(plain_json(given)); });
    return;
  }
  bool any = false;
  std::string content = contents_[at];
  each_call(&fields_[at], [&](PlainValue* function) {
    any = true;
    if (!forms.family) return;
    const PlainValue *name = function->find("name"), *given = function->find("arguments");
    content += "\n" + (forms.family->write && name && given ? forms.family->write(name->text, *given) : "");
  });
  if (!any) return;
  PlainValue kept = PlainValue::object();
  for (size_t one = 0; one < fields_[at].items.size(); ++one)
    if (fields_[at].keys[one] != "tool_calls") kept.set(fields_[at].keys[one], fields_[at].items[one]);
  fields_[at] = std::move(kept);
  if (!forms.family) return;
  const size_t first = std::min(content.find_first_not_of('\n'), content.size());
  contents_[at] = content.substr(first, content.find_last_not_of('\n') + 1 - first);
}

// The system message has the tools as text, which Phi-4-mini's template reads there.
void ToolTalk::into_system_message() {
  PlainValue functions;
  functions.kind = PlainValue::Kind::kList;
  for (const PlainValue& tool : tools_)
    if (const PlainValue* function = tool.find("function")) functions.items.push_back(*function);
  if (messages_.empty() || messages_[0].role != "system") {
    messages_.insert(messages_.begin(), {"system", {}});
    contents_.insert(contents_.begin(), "");
    fields_.insert(fields_.begin(), PlainValue::object());
  }
  fields_[0].set("tools", PlainValue::of(plain_json(functions)));
}

}  // namespace edgedec::engine
