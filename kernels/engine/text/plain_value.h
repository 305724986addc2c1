// Values of JSON that templates get: tools, and the fields of messages beside role and content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/status.h"

namespace edgedec::engine {

struct PlainValue {
  enum class Kind : uint8_t { kNull, kFlag, kWhole, kReal, kText, kList, kObject };

  Kind kind = Kind::kNull;
  int64_t whole = 0;  // of kFlag, too
  double real = 0.0;
  std::string text;
  std::vector<std::string> keys;  // of kObject, one for each item
  std::vector<PlainValue> items;

  static PlainValue of(std::string_view text) {
    PlainValue made;
    made.kind = Kind::kText;
    made.text = text;
    return made;
  }
  static PlainValue object() {
    PlainValue made;
    made.kind = Kind::kObject;
    return made;
  }
  bool is(Kind one) const { return kind == one; }
  // The field of an object; null where there is none.
  const PlainValue* find(std::string_view key) const;
  // Sets the field of an object, in its place where it is there.
  void set(std::string_view key, PlainValue value);
  // Bytes of its texts and keys, and some for each value.
  size_t bytes() const;
  // Hands each text and key to `act`.
  template <class Act>
  void each_text(Act act) {
    if (is(Kind::kText)) act(&text);
    for (std::string& key : keys) act(&key);
    for (PlainValue& item : items) item.each_text(act);
  }
};

// Limits on texts of JSON that a program hands in.
constexpr JsonLimits kPlainLimits = {size_t{4} << 20, 64, size_t{1} << 18};

// Copies a value; its texts become valid UTF-8. kUnsupported, kUsage: a number does not fit.
Status plain_value(JsonValue from, PlainValue* made);

// A text of JSON, in which half of a pair of surrogates becomes U+FFFD.
std::string whole_text(std::string_view text);

// JSON as Python's json.dumps(ensure_ascii=False) writes it.
std::string plain_json(const PlainValue& value);

}  // namespace edgedec::engine
