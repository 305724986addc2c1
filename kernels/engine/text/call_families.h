// The forms in which models write calls of tools: edgedec/text/tool_calls/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "engine/text/call_scanner.h"
#include "engine/text/plain_value.h"

namespace edgedec::engine {

// A text from a parser, and the tools whose calls it reads: functions in OpenAI's form.
struct CallReading {
  CallScanner* scanner;
  Span<const PlainValue> tools;

  // The JSON schema of the function's arguments; null: it is not declared. One without a schema has an empty one.
  const PlainValue* parameters(std::string_view name) const;
  bool declared(std::string_view name) const { return parameters(name) != nullptr; }
};

struct CallFamily {
  const char* name;
  // Whether the model of a chat template writes this form, by the text of that.
  bool (*knows)(std::string_view source);
  // Reads a call behind the mark of that number; null: this engine does not read the form.
  bool (*call)(const CallReading& reading, size_t mark);
  std::vector<std::string_view> marks;
  // Control tokens that belong to the form; they are text for the parser.
  std::vector<std::string_view> control;
  // Writes a call as the model does; null: that is not known.
  std::string (*write)(std::string_view name, const PlainValue& arguments) = nullptr;
  // Reads a call at the beginning of a reply, without a mark; null: there are none.
  bool (*first)(const CallReading& reading) = nullptr;
};

// All of them, in the order in which a chat template is compared with them.
const std::vector<CallFamily>& call_families();

// The family whose form a chat template describes; null for no form that is known.
const CallFamily* call_family(std::string_view source);

// Reads a reply of a family, as far as it is there.
class CallParser {
 public:
  explicit CallParser(const CallFamily& family) : family_(family) {}
  void run(const CallReading& reading);

 private:
  const CallFamily& family_;
  bool begun_ = false;
};

// Parts of forms, which several files share.

constexpr size_t kMostName = 200;  // characters of a function or a parameter

// A text without white space around it.
std::string stripped(std::string_view text);

// A value of JSON in which control characters in texts are fine; false: it is none.
bool lenient_json(std::string_view text, Json* json);
// A text as JSON.
std::string quoted_text(std::string_view text);
// An object, a list of objects, or objects in a row; those after the first may be broken. `accepts`: all names, or those of
// declared functions alone.
bool json_calls(const CallReading& reading, bool declared_alone);
bool call_object(const CallReading& reading, bool declared_alone);
// The calls of a list in Python's syntax, or one call; false: the text is none.
bool python_calls(std::string_view text, std::vector<ToolCall>* calls);
bool python_call(std::string_view text, ToolCall* call);
// A value of JSON in Python's syntax.
std::string python_text(const PlainValue& value);

// Parsers of forms in tags, in call_tags.cc.
bool read_gemma(const CallReading& reading, Span<const std::string_view> tags);
bool read_glm(const CallReading& reading);
bool read_qwen_coder(const CallReading& reading, size_t mark);
bool read_hermes(const CallReading& reading);
bool hermes_objects(const CallReading& reading, bool declared_alone);

}  // namespace edgedec::engine
