#include "core/base/json.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/base/utf8.h"

namespace edgedec::engine {

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();)
    if (next_utf8(text, &at) == kNotUtf8) return false;
  return true;
}

JsonValue::Kind JsonValue::kind() const { return json_ ? json_->nodes_[node_].kind : Kind::kMissing; }

std::optional<bool> JsonValue::flag() const {
  if (kind() != Kind::kFlag) return {};
  return json_->nodes_[node_].flag;
}

std::optional<int64_t> JsonValue::whole() const {
  if (kind() != Kind::kWhole) return {};
  const Json::Node& node = json_->nodes_[node_];
  std::string_view literal = json_->bytes(node.begin, node.count);
  const bool negative = literal[0] == '-';
  if (negative) literal.remove_prefix(1);
  if (literal.size() > 19) return {};
  uint64_t value = 0;
  for (char one : literal) value = value * 10 + static_cast<uint64_t>(one - '0');
  if (value > uint64_t{INT64_MAX} + negative) return {};
  return static_cast<int64_t>(negative ? 0 - value : value);
}

std::optional<double> JsonValue::number() const {
  if (kind() != Kind::kWhole && kind() != Kind::kReal) return {};
  return json_->nodes_[node_].real;
}

std::optional<std::string_view> JsonValue::text() const {
  if (kind() != Kind::kText) return {};
  return json_->bytes(json_->nodes_[node_].begin, json_->nodes_[node_].count);
}

size_t JsonValue::size() const { return is_list() || is_object() ? json_->nodes_[node_].count : 0; }

JsonValue JsonValue::at(size_t index) const {
  return index < size() ? JsonValue(json_, json_->children_[json_->nodes_[node_].begin + index]) : JsonValue();
}

std::string_view JsonValue::key() const {
  return json_ ? json_->bytes(json_->nodes_[node_].key_begin, json_->nodes_[node_].key_size) : std::string_view();
}

JsonValue JsonValue::operator[](std::string_view key) const {
  for (size_t i = 0; is_object() && i < size(); ++i)
    if (at(i).key() == key) return at(i);
  return {};
}

std::string JsonValue::canonical(std::string_view omitted) const {
  JsonWriter out;
  switch (kind()) {
    case Kind::kFlag: out.flag(*flag()); break;
    case Kind::kReal: out.real(*number()); break;
    case Kind::kText: out.text(*text()); break;
    case Kind::kWhole: {  // of any size
      const std::string_view literal = json_->bytes(json_->nodes_[node_].begin, json_->nodes_[node_].count);
      out.raw(literal == "-0" ? "0" : literal);
      break;
    }
    case Kind::kList:
      out.begin_list();
      for (size_t i = 0; i < size(); ++i) out.raw(at(i).canonical());
      out.end_list();
      break;
    case Kind::kObject: {
      std::vector<JsonValue> members;
      for (size_t i = 0; i < size(); ++i)
        if (omitted.empty() || at(i).key() != omitted) members.push_back(at(i));
      std::sort(members.begin(), members.end(), [](JsonValue a, JsonValue b) { return a.key() < b.key(); });
      out.begin_object();
      for (JsonValue member : members) out.key(member.key()).raw(member.canonical());
      out.end_object();
      break;
    }
    default: out.null();
  }
  return out.take();
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}

void JsonWriter::separate() {
  if (keyed_) keyed_ = false;
  else if (!first_) out_ += ", ";
  first_ = false;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  out_ += ": ";
  keyed_ = true;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  separate();
  quote(value);
  return *this;
}

JsonWriter& JsonWriter::whole(int64_t value) { return raw(decimal(value)); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

void JsonWriter::quote(std::string_view value) {
  const auto escaped = [&](uint32_t unit) {
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += "0123456789abcdef"[unit >> shift & 15];
  };
  out_ += '"';
  for (size_t at = 0; at < value.size();) {
    const size_t begin = at;
    uint32_t code = next_utf8(value, &at, true);
    if (code == kNotUtf8) code = 0xFFFD;
    const size_t place = std::string_view("\"\\\b\f\n\r\t").find(static_cast<char>(code));
    if (code < 0x80 && place != std::string_view::npos) {
      (out_ += '\\') += "\"\\bfnrt"[place];
    } else if (code < 0x20 || (code >= 0xD800 && code < 0xE000)) {
      escaped(code);
    } else if (code < 0x7F || (!ascii_ && code != 0xFFFD)) {
      out_.append(value, begin, at - begin);
    } else if (!ascii_) {
      append_utf8(code, &out_);
    } else if (code < 0x10000) {
      escaped(code);
    } else {
      escaped(0xD800 + ((code - 0x10000) >> 10));
      escaped(0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  out_ += '"';
}

}  // namespace edgedec::engine
