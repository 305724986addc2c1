// Calls as objects of JSON: edgedec/text/tool_calls/json_calls.py.
#include <optional>

#include "engine/text/call_families.h"

namespace edgedec::engine {
namespace {

constexpr int kFar = 4;  // objects within each other up to the name
constexpr JsonLimits kCallLimits = {size_t{16} << 20, 200, size_t{1} << 20};

// One call, the fields of which may come in any order.
class CallObject {
 public:
  CallObject(const CallReading& reading, bool declared_alone)
      : reading_(reading), scanner_(*reading.scanner), declared_alone_(declared_alone) {}

  bool read() {
    if (!members(0)) return false;
    if (begun_) return true;
    if (!begin()) return false;
    *scanner_.arguments() = arguments_.empty() ? "{}" : arguments_;
    return true;
  }

 private:
  bool members(int depth) {
    if (!scanner_.expect({"{"})) return false;
    for (int which = 0; which == 0;) {
      std::string key;
      if (!text(&key) || !scanner_.expect({":"}) || !scanner_.space() || !member(key, depth)) return false;
      if (!scanner_.expect({",", "}"}, &which)) return false;
    }
    return true;
  }

  bool member(const std::string& key, int depth) {
    if ((key == "name" || key == "function") && scanner_.starts("\"") && !name_) {
      name_.emplace();
      return text(&*name_);
    }
    if (key == "function" && scanner_.starts("{") && depth < kFar) return members(depth + 1);
    if ((key == "arguments" || key == "parameters") && !begun_) return values();
    std::string dropped;
    return scanner_.value(&dropped);
  }

  bool values() {
    if (scanner_.starts("{") && name_) return begin() && scanner_.value(scanner_.arguments());
    std::string given;
    return scanner_.value(&given) && as_object(given);
  }

  // Takes arguments as an object: models write some as a text with JSON in it, and none as null.
  bool as_object(std::string given) {
    Json json;
    if (!lenient_json(given, &json)) return false;
    if (const auto text = json.root().text()) {
      given = std::string(*text);
      if (!lenient_json(given.empty() ? "{}" : given, &json)) return false;
    }
    if (!json.root().is_null() && !json.root().is_object()) return false;
    arguments_ = json.root().is_null() ? "" : given;
    return true;
  }

  bool begin() {
    if (!name_ || name_->empty() || (declared_alone_ && !reading_.declared(*name_))) return false;
    begun_ = true;
    scanner_.begin(*name_);
    return true;
  }

  bool text(std::string* found) {
    std::string given;
    Json json;
    if (!scanner_.space() || !scanner_.starts("\"")) return false;
    if (!scanner_.value(&given) || !lenient_json(given, &json) || !json.root().text()) return false;
    *found = *json.root().text();
    return true;
  }

  const CallReading& reading_;
  CallScanner& scanner_;
  const bool declared_alone_;
  std::optional<std::string> name_;
  std::string arguments_;
  bool begun_ = false;
};

}  // namespace

bool lenient_json(std::string_view text, Json* json) {
  std::string given;
  bool inside = false, escaped = false;
  for (char one : text) {
    const bool control = inside && !escaped && static_cast<unsigned char>(one) < 0x20;
    if (control) (given += "\\u00") += {"0123456789abcdef"[one >> 4], "0123456789abcdef"[one & 15]};
    else given += one;
    if (one == '"' && !escaped) inside = !inside;
    escaped = inside && one == '\\' && !escaped;
  }
  return json->parse(given, kCallLimits);
}

std::string quoted_text(std::string_view text) { return JsonWriter(false).text(text).take(); }

bool call_object(const CallReading& reading, bool declared_alone) { return CallObject(reading, declared_alone).read(); }

bool json_calls(const CallReading& reading, bool declared_alone) {
  CallScanner& scanner = *reading.scanner;
  int which;
  if (!scanner.space() || !scanner.next_is({"["}, &which)) return false;
  if (which == 0) {
    do {
      if (!call_object(reading, declared_alone) || !scanner.expect({",", "]"}, &which)) return false;
    } while (which == 0);
    return true;
  }
  do {
    if (!call_object(reading, declared_alone) || !scanner.space()) return false;
  } while (scanner.starts("{"));
  return true;
}

}  // namespace edgedec::engine
