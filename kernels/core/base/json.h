// JSON, read with bounds on size and depth, and written as Python's json.dumps does.
//
// The text may come from an enemy. Texts keep lone surrogates, as Python's do, in three bytes; `is_utf8` tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace edgedec::engine {

// The number that a decimal text states, correctly rounded; none for other texts.
std::optional<double> parse_real(std::string_view text);

// The shortest text that reads as `value`, as Python's repr writes it; NaN, Infinity and -Infinity as json.dumps does.
std::string real_text(double value);

struct JsonLimits {
  size_t bytes = 1 << 20;
  int depth = 64;
  size_t values = 1 << 16;
};

class Json;

// A place in a document, or none. Valid as long as the document.
class JsonValue {
 public:
  enum class Kind : uint8_t { kMissing, kNull, kFlag, kWhole, kReal, kText, kList, kObject };

  JsonValue() = default;
  Kind kind() const;
  bool missing() const { return kind() == Kind::kMissing; }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_object() const { return kind() == Kind::kObject; }
  // The value, or none where it has another type.
  std::optional<bool> flag() const;
  std::optional<int64_t> whole() const;  // none for whole numbers outside 64 bits, too
  std::optional<double> number() const;  // whole numbers, too
  std::optional<std::string_view> text() const;

  // Elements of a list or an object; of a repeated key the last one, where the first one stands.
  size_t size() const;
  JsonValue at(size_t index) const;
  std::string_view key() const;  // its own, in the object around it
  JsonValue operator[](std::string_view key) const;

  // Tells values of one document apart.
  uint32_t id() const { return node_; }

  // The text that json.dumps(value, sort_keys=True) writes, without the member `omitted`.
  std::string canonical(std::string_view omitted = {}) const;

 private:
  friend class Json;
  JsonValue(const Json* json, uint32_t node) : json_(json), node_(node) {}
  const Json* json_ = nullptr;
  uint32_t node_ = 0;
};

// A document. It keeps nothing of the text that it was read from.
class Json {
 public:
  // False for what is no JSON, and beyond the limits. NaN and Infinity are none.
  bool parse(std::string_view text, const JsonLimits& limits = {});
  JsonValue root() const { return nodes_.empty() ? JsonValue() : JsonValue(this, root_); }

 private:
  friend class JsonValue;
  friend class JsonParser;
  struct Node {
    JsonValue::Kind kind = JsonValue::Kind::kNull;
    bool flag = false;
    uint32_t begin = 0, count = 0;         // children, or bytes of the text or of the literal of a whole number
    uint32_t key_begin = 0, key_size = 0;
    double real = 0.0;
  };
  std::string_view bytes(uint32_t begin, uint32_t count) const { return std::string_view(text_).substr(begin, count); }

  std::vector<Node> nodes_;
  std::vector<uint32_t> children_;
  std::string text_;
  uint32_t root_ = 0;
};

// Whether a text is UTF-8 without surrogates.
bool is_utf8(std::string_view text);

// Writes JSON as json.dumps does: ", " and ": " between values. `ascii`: other characters become \uXXXX.
class JsonWriter {
 public:
  explicit JsonWriter(bool ascii = true) : ascii_(ascii) {}
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_list() { return open('['); }
  JsonWriter& end_list() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);
  JsonWriter& whole(int64_t value);
  JsonWriter& real(double value) { return raw(real_text(value)); }
  JsonWriter& flag(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  JsonWriter& raw(std::string_view json);  // a value that is JSON already
  const std::string& str() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quote(std::string_view value);

  std::string out_;
  bool ascii_, first_ = true, keyed_ = false;
};

}  // namespace edgedec::engine
