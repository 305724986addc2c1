// Calls in tags of their own: Gemma's notation of values, GLM's and Qwen3-Coder's tags, and JSON in Hermes' tags.
// edgedec/text/tool_calls/gemma.py, glm.py, qwen_coder.py, hermes.py.
#include "engine/text/call_families.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostScalar = 1000;
constexpr int kMostGemmaLevels = 64;

std::string inner(std::string_view text) {
  const std::string quoted = quoted_text(text);
  return quoted.substr(1, quoted.size() - 2);
}

bool is_json_number(std::string_view text) {
  Json json;
  return json.parse(text) && json.root().number() && text.find_first_of(" \n\t\r") == text.npos;
}

// Rewrites Gemma's notation of values as JSON.
class GemmaValues {
 public:
  GemmaValues(CallScanner& scanner, std::string_view quote) : scanner_(scanner), quote_(quote) {}

  bool value(int level = 0) {
    int which;
    if (level > kMostGemmaLevels || !scanner_.space() || !scanner_.next_is({quote_, "{", "["}, &which)) return false;
    return which == 0 ? text() : which == 1 ? items("{", "}", level) : which == 2 ? items("[", "]", level) : word();
  }

 private:
  bool items(std::string_view begin, std::string_view end, int level) {
    *scanner_.arguments() += begin;
    int which;
    if (!scanner_.space() || !scanner_.next_is({end}, &which)) return false;
    for (bool first = true; which != 0; first = false) {
      if (!first) *scanner_.arguments() += ", ";
      if (begin == "{" && !key()) return false;
      if (!value(level + 1) || !scanner_.expect({end, ","}, &which)) return false;
    }
    *scanner_.arguments() += end;
    return true;
  }

  bool key() {
    int which;
    std::string name;
    if (!scanner_.space() || !scanner_.next_is({quote_}, &which)) return false;
    if (which == 0) {
      if (!text() || !scanner_.expect({":"})) return false;
    } else {
      if (!scanner_.until({":"}, kMostName, &name)) return false;
      *scanner_.arguments() += quoted_text(stripped(name));
    }
    *scanner_.arguments() += ": ";
    return true;
  }

  bool text() {
    std::string found;
    const bool whole = scanner_.pieces_until(quote_, "", &found);
    *scanner_.arguments() += "\"" + inner(found) + (whole ? "\"" : "");
    return whole;
  }

  // A number, or a word: true, false, null and None; any other one is a text.
  bool word() {
    std::string found;
    if (!scanner_.until({",", "}", "]"}, kMostScalar, &found)) return false;
    scanner_.put_back(1);
    const std::string word = stripped(found);
    const bool plain = word == "true" || word == "false" || word == "null" || is_json_number(word);
    *scanner_.arguments() += word == "None" ? "null" : plain ? word : quoted_text(word);
    return true;
  }

  CallScanner& scanner_;
  std::string_view quote_;
};

// Reads the value of a parameter up to `end`: plain text where the function's schema wants a text, and JSON elsewhere.
bool typed_value(const CallReading& reading, std::string_view function, std::string_view key, std::string_view end,
                 std::string_view keep) {
  CallScanner& scanner = *reading.scanner;
  const PlainValue* schema = reading.parameters(function);
  for (std::string_view name : {std::string_view("properties"), key, std::string_view("type")})
    schema = schema && schema->is(PlainValue::Kind::kObject) ? schema->find(name) : nullptr;
  std::string found;
  const bool whole = scanner.pieces_until(end, keep, &found);
  if (schema && schema->is(PlainValue::Kind::kText) && schema->text == "string") {
    *scanner.arguments() += "\"" + inner(found) + (whole ? "\"" : "");
    return whole;
  }
  if (!whole) return false;
  const std::string word = stripped(found);
  Json json;
  const std::string plain = word == "True" ? "true" : word == "False" ? "false" : word == "None" ? "null" : found;
  *scanner.arguments() += json.parse(plain, {size_t{16} << 20, 200, size_t{1} << 20}) ? plain : quoted_text(found);
  return true;
}

bool tag_name(CallScanner& scanner, std::string* name) {
  return scanner.until({">"}, kMostName, name) && !name->empty() && name->find('\n') == name->npos;
}

bool coder_function(const CallReading& reading) {
  CallScanner& scanner = *reading.scanner;
  std::string name, key;
  int which, newline;
  if (!tag_name(scanner, &name)) return false;
  scanner.begin(name);
  *scanner.arguments() += "{";
  for (bool first = true;; first = false) {
    if (!scanner.expect({"<parameter=", "</function>"}, &which)) return false;
    if (which == 1) break;
    if (!tag_name(scanner, &key)) return false;
    *scanner.arguments() += (first ? "" : ", ") + quoted_text(key) + ": ";
    if (!scanner.next_is({"\n"}, &newline) || !typed_value(reading, name, key, "</parameter>", "\n")) return false;
  }
  *scanner.arguments() += "}";
  return scanner.space() && scanner.next_is({"</tool_call>"}, &which);
}

}  // namespace

bool read_gemma(const CallReading& reading, Span<const std::string_view> tags) {
  CallScanner& scanner = *reading.scanner;
  std::string name;
  int which;
  if (!scanner.expect({"call:"}) || !scanner.until({"{"}, kMostName, &name) || stripped(name).empty()) return false;
  scanner.begin(stripped(name));
  scanner.put_back(1);
  return GemmaValues(scanner, tags[2]).value() && scanner.space() && scanner.next_is({tags[1]}, &which);
}

bool read_glm(const CallReading& reading) {
  CallScanner& scanner = *reading.scanner;
  std::string found, key;
  int which;
  if (!scanner.until({"<arg_key>", "</tool_call>"}, kMostName, &found, &which)) return false;
  const std::string name = stripped(found);
  if (name.empty() || name.find_first_of("{<\n") != name.npos) return false;
  scanner.begin(name);
  *scanner.arguments() += "{";
  for (bool first = true; which == 0; first = false) {
    if (!scanner.until({"</arg_key>"}, kMostName, &key)) return false;
    *scanner.arguments() += (first ? "" : ", ") + quoted_text(stripped(key)) + ": ";
    if (!scanner.expect({"<arg_value>"}) || !typed_value(reading, name, stripped(key), "</arg_value>", "")) return false;
    if (!scanner.expect({"<arg_key>", "</tool_call>"}, &which)) return false;
  }
  *scanner.arguments() += "}";
  return true;
}

// Objects of calls, perhaps in the double braces that Qwen2.5's template shows.
bool hermes_objects(const CallReading& reading, bool declared_alone) {
  CallScanner& scanner = *reading.scanner;
  int doubled, which;
  if (!scanner.space() || !scanner.next_is({"{{"}, &doubled)) return false;
  if (doubled == 0) scanner.put_back(1);
  if (!json_calls(reading, declared_alone)) return false;
  return doubled != 0 || (scanner.space() && scanner.next_is({"}"}, &which));
}

bool read_hermes(const CallReading& reading) {
  CallScanner& scanner = *reading.scanner;
  int which;
  return hermes_objects(reading, false) && scanner.space() && scanner.next_is({"</tool_call>"}, &which);
}

bool read_qwen_coder(const CallReading& reading, size_t mark) {
  CallScanner& scanner = *reading.scanner;
  if (mark == 1) return coder_function(reading);  // some models leave the first tag out
  if (!scanner.space()) return false;
  if (scanner.starts("{")) return read_hermes(reading);
  return scanner.expect({"<function="}) && coder_function(reading);
}

}  // namespace edgedec::engine
