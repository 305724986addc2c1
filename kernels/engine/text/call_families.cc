#include "engine/text/call_families.h"

#include "core/base/utf8.h"
#include "engine/text/letters.h"
#include "engine/text/white_space.h"

namespace edgedec::engine {
namespace {

using Tags = std::vector<std::string_view>;
using Text = std::string_view;

constexpr size_t kMostPython = 100'000, kMostBuiltIn = 10'000;
constexpr Text kCall = "<tool_call>", kCallEnd = "</tool_call>", kBar = "<|tool_call|>", kBarEnd = "<|/tool_call|>";
constexpr Text kLfm = "<|tool_call_start|>", kLfmEnd = "<|tool_call_end|>", kPython = "<|python_tag|>";
constexpr Text kCalls = "[TOOL_CALLS]", kArgs = "[ARGS]", kCallId = "[CALL_ID]";
// DeepSeek's tags have a wide bar and an underscore of their own.
#define EDGEDEC_BAR "\xEF\xBD\x9C"
#define EDGEDEC_LINE "\xE2\x96\x81"
#define EDGEDEC_TAG(a, b, c) "<" EDGEDEC_BAR a EDGEDEC_LINE b EDGEDEC_LINE c EDGEDEC_BAR ">"
constexpr Text kAll = EDGEDEC_TAG("tool", "calls", "begin"), kAllEnd = EDGEDEC_TAG("tool", "calls", "end");
constexpr Text kOne = EDGEDEC_TAG("tool", "call", "begin"), kOneEnd = EDGEDEC_TAG("tool", "call", "end");
constexpr Text kBetween = "<" EDGEDEC_BAR "tool" EDGEDEC_LINE "sep" EDGEDEC_BAR ">";
#undef EDGEDEC_TAG
#undef EDGEDEC_LINE
#undef EDGEDEC_BAR
constexpr Text kFence = "```json";

bool has(Text text, Text part) { return text.find(part) != text.npos; }

bool takes(CallScanner& scanner, Text text) {
  int which;
  return scanner.space() && scanner.next_is({text}, &which);
}

// Calls in JSON, and the tag behind them, where it is there.
bool json_until(const CallReading& reading, Text end) { return json_calls(reading, false) && takes(*reading.scanner, end); }

std::string json_call(Text before, Text name, Text key, const PlainValue& arguments, Text after) {
  std::string text(before);
  text += "{\"name\": " + quoted_text(name) + ", \"" + std::string(key) + "\": " + plain_json(arguments);
  return text += after;
}

bool hermes_first(const CallReading& reading) {
  CallScanner& scanner = *reading.scanner;
  int fenced;
  if (!scanner.space() || !scanner.next_is({"```json\n"}, &fenced)) return false;
  if ((fenced != 0 && !scanner.starts("{")) || !hermes_objects(reading, true)) return false;
  return fenced != 0 || scanner.expect({"```"});
}

bool llama_objects(const CallReading& reading) {
  CallScanner& scanner = *reading.scanner;
  while (true) {
    if (!call_object(reading, true) || !takes(scanner, ";") || !scanner.space()) return false;
    if (!scanner.starts("{")) return true;
    scanner.hold();
  }
}

bool llama_first(const CallReading& reading) {
  return reading.scanner->space() && reading.scanner->starts("{") && llama_objects(reading);
}

void give(CallScanner& scanner, ToolCall call) {
  scanner.begin(std::move(call.name));
  *scanner.arguments() = std::move(call.arguments);
}

bool llama_tagged(const CallReading& reading, size_t) {
  CallScanner& scanner = *reading.scanner;
  ToolCall call;
  if (!scanner.space()) return false;
  if (scanner.starts("{")) return llama_objects(reading);
  if (!scanner.ended()) return scanner.rest().size() <= kMostBuiltIn && scanner.wait();
  const std::string text(scanner.rest());
  scanner.skip(text.size());
  if (!python_call(text, &call)) return false;
  if (call.name.size() > 5 && call.name.substr(call.name.size() - 5) == ".call") call.name.resize(call.name.size() - 5);
  give(scanner, std::move(call));
  return true;
}

bool lfm(const CallReading& reading, size_t) {
  CallScanner& scanner = *reading.scanner;
  std::vector<ToolCall> calls;
  if (!scanner.space()) return false;
  const Text begun = scanner.rest();
  if (without_space_at_end(begun) == "[" && !scanner.ended()) return scanner.wait();
  const size_t inside = begun.find_first_not_of("[ \n\t");
  if (inside != begun.npos && begun[inside] == '{') return json_until(reading, kLfmEnd);
  const size_t end = begun.find(kLfmEnd);
  if (end == begun.npos && !scanner.ended()) return begun.size() <= kMostPython && scanner.wait();
  if (!python_calls(begun.substr(0, end), &calls)) return false;
  scanner.skip(end == begun.npos ? begun.size() : end + kLfmEnd.size());
  for (ToolCall& call : calls) give(scanner, std::move(call));
  return true;
}

std::string write_lfm(Text name, const PlainValue& arguments) {
  std::string given;
  for (size_t at = 0; at < arguments.keys.size(); ++at)
    given += (at ? ", " : "") + arguments.keys[at] + "=" + python_text(arguments.items[at]);
  return std::string(kLfm) + "[" + std::string(name) + "(" + given + ")]" + std::string(kLfmEnd);
}

bool mistral(const CallReading& reading, size_t) {
  CallScanner& scanner = *reading.scanner;
  std::string name, id;
  int which;
  if (!scanner.space()) return false;
  if (scanner.starts("[") || scanner.starts("{")) return json_calls(reading, false);
  if (!scanner.until({kArgs, kCallId, "{"}, kMostName, &name, &which) || !is_word(stripped(name), "_.:/-")) return false;
  if (which == 1 && !scanner.until({kArgs}, kMostName, &id)) return false;
  scanner.begin(stripped(name));
  if (which == 2) scanner.put_back(1);
  if (!scanner.space()) return false;
  if (scanner.starts("{")) return scanner.value(scanner.arguments());
  *scanner.arguments() = "{}";
  return true;
}

bool phi(const CallReading& reading, size_t mark) {
  if (mark == 1) reading.scanner->put_back(1);
  return json_until(reading, kBarEnd);
}

bool deepseek_call(const CallReading& reading) {
  CallScanner& scanner = *reading.scanner;
  std::string name;
  if (!scanner.until({kBetween}, kMostName, &name) || !scanner.space()) return false;
  const bool fenced = !scanner.starts("{");
  if (fenced && (!scanner.until({"\n"}, kMostName, &name) || !scanner.expect({kFence}) || !scanner.space())) return false;
  if (stripped(name).empty() || !scanner.starts("{")) return false;
  scanner.begin(stripped(name));
  if (!scanner.value(scanner.arguments()) || (fenced && !scanner.expect({"```"}))) return false;
  return scanner.expect({kOneEnd});
}

bool deepseek(const CallReading& reading, size_t) {
  int which;
  while (reading.scanner->expect({kOne, kAllEnd}, &which)) {
    if (which == 1) return true;
    if (!deepseek_call(reading)) return false;
  }
  return false;
}

std::string write_deepseek(Text name, Text before, const PlainValue& arguments, Text after) {
  std::string text(kAll);
  text.append(kOne).append(before).append(name);
  text += before.empty() ? std::string(kBetween) : "\n```json\n";
  return text.append(plain_json(arguments)).append(after).append(kOneEnd).append(kAllEnd);
}

constexpr Text kOldGemma[] = {"<start_function_call>", "<end_function_call>", "<escape>"};
constexpr Text kNewGemma[] = {"<|tool_call>", "<tool_call|>", "<|\"|>"};

bool is_phi(Text source) { return has(source, kBarEnd) || has(source, "<|/tool|>"); }

// A list of calls in JSON between two tags.
template <const Text* Begin, const Text* End>
CallFamily listed(const char* name) {
  return {name,
          [](Text source) { return has(source, *Begin); },
          [](const CallReading& reading, size_t) { return json_until(reading, *End); },
          {*Begin},
          {*Begin, *End},
          [](Text called, const PlainValue& given) {
            return json_call(std::string(*Begin) + "[", called, "arguments", given, "}]" + std::string(*End));
          }};
}

constexpr Text kNemotron = "<TOOLCALL>", kNemotronEnd = "</TOOLCALL>", kApriel = "<tool_calls>", kAprielEnd = "</tool_calls>";

std::vector<CallFamily> made_families() {
  return {
      {"harmony",
       [](Text source) { return has(source, "<|channel|>") && has(source, "<|message|>") && has(source, "functions"); },
       nullptr,
       {},
       {}},
      {"qwen-coder", [](Text source) { return has(source, "<function=") && has(source, "<parameter="); }, read_qwen_coder,
       {kCall, "<function="}, {kCall, kCallEnd}},
      {"glm",
       [](Text source) { return has(source, kCall) && has(source, "<arg_key>"); },
       [](const CallReading& reading, size_t) { return read_glm(reading); },
       {kCall},
       {kCall, kCallEnd, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}},
      {"function-gemma",
       [](Text source) { return has(source, kOldGemma[0]); },
       [](const CallReading& reading, size_t) { return read_gemma(reading, {kOldGemma, 3}); },
       {kOldGemma[0]},
       Tags(kOldGemma, kOldGemma + 3)},
      {"gemma4",
       [](Text source) { return has(source, kNewGemma[0]); },
       [](const CallReading& reading, size_t) { return read_gemma(reading, {kNewGemma, 3}); },
       {kNewGemma[0]},
       Tags(kNewGemma, kNewGemma + 3)},
      {"lfm", [](Text source) { return has(source, kLfm) || has(source, "<|tool_list_start|>") || has(source, "List of tools: ["); },
       lfm, {kLfm}, {kLfm, kLfmEnd}, write_lfm},
      {"phi", is_phi, phi, {kBar, "functools["}, {kBar, kBarEnd},
       [](Text name, const PlainValue& given) {
         return json_call(std::string(kBar) + "[", name, "arguments", given, "}]" + std::string(kBarEnd));
       }},
      {"granite", [](Text source) { return has(source, kBar) && !is_phi(source); },
       [](const CallReading& reading, size_t) { return json_until(reading, kBarEnd); }, {kBar, kCall}, {kBar},
       [](Text name, const PlainValue& given) { return json_call(std::string(kBar) + "[", name, "arguments", given, "}]"); }},
      {"mistral-args", [](Text source) { return has(source, kCalls) && has(source, kArgs); }, mistral, {kCalls},
       {kCalls, kArgs, kCallId},
       [](Text name, const PlainValue& given) {
         return std::string(kCalls) + std::string(name) + std::string(kArgs) + plain_json(given);
       }},
      {"mistral", [](Text source) { return has(source, kCalls) && !has(source, kArgs); }, mistral, {kCalls},
       {kCalls, kArgs, kCallId},
       [](Text name, const PlainValue& given) { return json_call(std::string(kCalls) + "[", name, "arguments", given, "}]"); }},
      {"deepseek-fenced", [](Text source) { return has(source, kOne) && has(source, kFence); }, deepseek, {kAll},
       {kAll, kAllEnd, kOne, kOneEnd, kBetween},
       [](Text name, const PlainValue& given) {
         return write_deepseek(name, "function" + std::string(kBetween), given, "\n```");
       }},
      {"deepseek", [](Text source) { return has(source, kOne) && !has(source, kFence); }, deepseek, {kAll},
       {kAll, kAllEnd, kOne, kOneEnd, kBetween},
       [](Text name, const PlainValue& given) { return write_deepseek(name, "", given, ""); }},
      listed<&kNemotron, &kNemotronEnd>("nemotron"),
      listed<&kApriel, &kAprielEnd>("apriel"),
      {"hermes", [](Text source) { return has(source, kCall); },
       [](const CallReading& reading, size_t) { return read_hermes(reading); }, {kCall}, {kCall, kCallEnd},
       [](Text name, const PlainValue& given) {
         return json_call(std::string(kCall) + "\n", name, "arguments", given, "}\n" + std::string(kCallEnd));
       },
       hermes_first},
      {"llama",
       [](Text source) { return has(source, kPython) || has(source, "\"parameters\": dictionary of argument name"); },
       llama_tagged, {kPython}, {kPython},
       [](Text name, const PlainValue& given) { return json_call("", name, "parameters", given, "}"); },
       llama_first},
  };
}

}  // namespace

std::string stripped(std::string_view text) { return std::string(without_space_at_end(without_space_in_front(text))); }

const std::vector<CallFamily>& call_families() {
  static const std::vector<CallFamily> families = made_families();
  return families;
}

const CallFamily* call_family(std::string_view source) {
  for (const CallFamily& family : call_families())
    if (family.knows(source)) return &family;
  return nullptr;
}

const PlainValue* CallReading::parameters(std::string_view name) const {
  static const PlainValue kNone = PlainValue::object();
  for (const PlainValue& tool : tools) {
    const PlainValue* function = tool.find("function");
    const PlainValue* own = function ? function->find("name") : nullptr;
    if (!own || own->text != name) continue;
    const PlainValue* found = function->find("parameters");
    return found ? found : &kNone;
  }
  return nullptr;
}

void CallParser::run(const CallReading& reading) {
  CallScanner& scanner = *reading.scanner;
  // Reads a call; where it is none, the text that was held for it is content.
  const auto attempt = [&](auto read) {
    if (read()) return scanner.settle(), true;
    if (scanner.waits()) return false;
    scanner.release();
    return scanner.settle(), true;
  };
  scanner.again();
  if (!begun_ && family_.first) {
    scanner.hold();
    if (!attempt([&] { return family_.first(reading); })) return;
  }
  begun_ = true;
  for (size_t mark; scanner.content_until(family_.marks, &mark);)
    if (!attempt([&] { return family_.call(reading, mark); })) return;
}

}  // namespace edgedec::engine
