#include "engine/text/plain_value.h"

#include <algorithm>
#include <cmath>

#include "core/base/utf8.h"

namespace edgedec::engine {
namespace {

constexpr size_t kValueBytes = 16;  // that a value counts for beside its text

void write(const PlainValue& value, JsonWriter* out) {
  switch (value.kind) {
    case PlainValue::Kind::kNull: out->null(); break;
    case PlainValue::Kind::kFlag: out->flag(value.whole != 0); break;
    case PlainValue::Kind::kWhole: out->whole(value.whole); break;
    case PlainValue::Kind::kReal: out->real(value.real); break;
    case PlainValue::Kind::kText: out->text(value.text); break;
    case PlainValue::Kind::kList:
      out->begin_list();
      for (const PlainValue& item : value.items) write(item, out);
      out->end_list();
      break;
    case PlainValue::Kind::kObject:
      out->begin_object();
      for (size_t at = 0; at < value.items.size(); ++at) write(value.items[at], &out->key(value.keys[at]));
      out->end_object();
  }
}

}  // namespace

std::string whole_text(std::string_view text) {
  std::string found;
  for (size_t at = 0; at < text.size();) {
    const uint32_t code = next_utf8(text, &at, true);
    append_utf8(code == kNotUtf8 || (code >= 0xD800 && code < 0xE000) ? 0xFFFD : code, &found);
  }
  return found;
}

const PlainValue* PlainValue::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<size_t>(found - keys.begin())];
}

void PlainValue::set(std::string_view key, PlainValue value) {
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found != keys.end()) {
    items[static_cast<size_t>(found - keys.begin())] = std::move(value);
    return;
  }
  keys.emplace_back(key);
  items.push_back(std::move(value));
}

size_t PlainValue::bytes() const {
  size_t count = kValueBytes + text.size();
  for (const std::string& key : keys) count += key.size();
  for (const PlainValue& item : items) count += item.bytes();
  return count;
}

Status plain_value(JsonValue from, PlainValue* made) {
  using From = JsonValue::Kind;
  *made = {};
  switch (from.kind()) {
    case From::kFlag:
      made->kind = PlainValue::Kind::kFlag;
      made->whole = *from.flag();
      break;
    case From::kWhole:
      made->kind = PlainValue::Kind::kWhole;
      if (!from.whole()) return {Code::kUnsupported, "a whole number has more than 64 bits", "write it as a text"};
      made->whole = *from.whole();
      break;
    case From::kReal:
      made->kind = PlainValue::Kind::kReal;
      made->real = *from.number();
      if (std::isinf(made->real)) return {Code::kUsage, "a number is out of range", "write it as a text"};
      break;
    case From::kText: *made = PlainValue::of(whole_text(*from.text())); break;
    case From::kList:
    case From::kObject:
      made->kind = from.is_list() ? PlainValue::Kind::kList : PlainValue::Kind::kObject;
      made->items.resize(from.size());
      for (size_t at = 0; at < from.size(); ++at) {
        if (from.is_object()) made->keys.push_back(whole_text(from.at(at).key()));
        EDGEDEC_TRY(plain_value(from.at(at), &made->items[at]));
      }
      break;
    default: break;
  }
  return {};
}

std::string plain_json(const PlainValue& value) {
  JsonWriter out(false);
  write(value, &out);
  return out.take();
}

}  // namespace edgedec::engine
