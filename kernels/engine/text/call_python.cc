// Calls in Python's syntax, such as [weather(town="Rome", days=2), now()]: edgedec/text/tool_calls/python_calls.py.
//
// Literals are those of JSON's types, and Python's tuples. Numbers of another base, bytes and named characters are no call here.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/utf8.h"
#include "engine/text/call_families.h"
#include "engine/text/letters.h"
#include "engine/text/white_space.h"

namespace edgedec::engine {
namespace {

constexpr int kMostPythonLevels = 64;
constexpr size_t kMostDigits = 4300;
constexpr std::string_view kKeywords =
    " False None True and as assert async await break class continue def del elif else except finally for from global if import in "
    "is lambda nonlocal not or pass raise return try while with yield ";

bool is_digit(char one) { return one >= '0' && one <= '9'; }
bool is_name_part(char one) {
  return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || one == '_' || (one & 0x80) || is_digit(one);
}

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : in_(without_space_at_end(without_space_in_front(text))) {}

  bool list(std::vector<ToolCall>* calls) {
    if (!sound() || !take('[')) return false;
    do {
      if (take(']')) return !calls->empty() && over();
      calls->emplace_back();
      if (!call(&calls->back())) return false;
    } while (take(','));
    return take(']') && over();
  }

  bool one(ToolCall* made) { return sound() && call(made) && over(); }

 private:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  bool sound() const { return in_.find('\0') == in_.npos; }
  void space() {
    while (at_ < in_.size() && std::string_view(" \t\n\r\f").find(in_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char one) {
    space();
    return at_ < in_.size() && in_[at_] == one && (++at_, true);
  }
  char next() const { return at_ < in_.size() ? in_[at_] : '\0'; }
  bool over() {
    space();
    return at_ == in_.size();
  }

  bool name(std::string* found, bool keywords = false) {
    space();
    const size_t start = at_;
    while (at_ < in_.size() && is_name_part(in_[at_])) ++at_;
    *found = in_.substr(start, at_ - start);
    if (found->empty() || is_digit((*found)[0])) return false;
    if (!is_word(*found, "_")) return false;
    return keywords || kKeywords.find(" " + *found + " ") == kKeywords.npos;
  }

  bool call(ToolCall* made) {
    if (!name(&made->name)) return false;
    for (std::string part; take('.'); made->name += "." + part)
      if (!name(&part)) return false;
    if (!take('(')) return false;
    Fields fields;
    while (!take(')')) {
      std::string key, value;
      if (!name(&key) || !take('=') || next() == '=' || !literal(0, &value)) return false;
      set(&fields, std::move(key), std::move(value));
      if (!take(',')) {
        if (!take(')')) return false;
        break;
      }
    }
    made->arguments = object(fields);
    return true;
  }

  static void set(Fields* fields, std::string key, std::string value) {
    for (auto& [known, old] : *fields)
      if (known == key) return void(old = std::move(value));
    fields->emplace_back(std::move(key), std::move(value));
  }
  static std::string object(const Fields& fields) {
    JsonWriter out(false);
    out.begin_object();
    for (const auto& [key, value] : fields) out.key(key).raw(value);
    return out.end_object().take();
  }

  // A literal as JSON.
  bool literal(int level, std::string* out) {
    space();
    if (level > kMostPythonLevels) return false;
    const char first = next();
    std::string text;
    if (first == '[' || first == '(') return items(level, first == '[' ? ']' : ')', out);
    if (first == '{') return dictionary(level, out);
    if (first == '-') {
      ++at_;
      if (!literal(level + 1, out) || out->empty() || !(is_digit((*out)[0]) || (*out)[0] == '-' || (*out)[0] == 'I')) return false;
      *out = *out == "0" ? "0" : (*out)[0] == '-' ? out->substr(1) : "-" + *out;
      return true;
    }
    if (is_digit(first) || first == '.') return number(out);
    if (begins_text()) {
      if (!texts(&text)) return false;
      *out = quoted_text(text);
      return true;
    }
    if (!name(&text, true)) return false;
    const bool yes = text == "True" || text == "true", none = text == "None" || text == "null";
    *out = yes ? "true" : none ? "null" : "false";
    return yes || none || text == "False" || text == "false";
  }

  // A list or a tuple; one literal in brackets is itself.
  bool items(int level, char end, std::string* out) {
    JsonWriter list(false);
    list.begin_list();
    ++at_;
    std::string item;
    size_t count = 0;
    bool comma = true;
    for (; !take(end); ++count) {
      if (!comma || !literal(level + 1, &item)) return false;
      list.raw(item);
      comma = take(',');
    }
    if (!count && end == ')' && at_ >= 2 && in_[at_ - 2] == ',') return false;
    *out = count == 1 && !comma && end == ')' ? item : list.end_list().take();
    return true;
  }

  bool dictionary(int level, std::string* out) {
    Fields fields;
    ++at_;
    for (bool comma = true; !take('}'); comma = take(',')) {
      std::string key, value;
      if (!comma || !dictionary_key(&key) || !take(':') || !literal(level + 1, &value)) return false;
      set(&fields, std::move(key), std::move(value));
    }
    *out = object(fields);
    return true;
  }

  // A constant as Python's str has it.
  bool dictionary_key(std::string* key) {
    space();
    if (begins_text()) return texts(key);
    if (is_digit(next()) || next() == '.') return number(key);
    return name(key, true) && (*key == "True" || *key == "False" || *key == "None");
  }

  bool number(std::string* out) {
    std::string digits;
    bool real = false;
    const auto run = [&] {
      const size_t start = at_;
      for (; is_digit(next()) || (next() == '_' && at_ > start && is_digit(in_[at_ - 1]) && at_ + 1 < in_.size() && is_digit(in_[at_ + 1])); ++at_)
        if (next() != '_') digits += next();
      return at_ > start;
    };
    const bool whole = run();
    if (next() == '.') {
      real = true;
      digits += in_[at_++];
      if (!run() && !whole) return false;
    }
    if (next() == 'e' || next() == 'E') {
      real = true;
      digits += in_[at_++];
      if (next() == '-' || next() == '+') digits += in_[at_++];
      if (!run()) return false;
    }
    if (at_ < in_.size() && (is_name_part(in_[at_]) || in_[at_] == '.')) return false;
    if (!real) {
      const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size() - 1);
      if ((zeros && digits.find_first_not_of('0') != digits.npos) || digits.size() > kMostDigits) return false;
      *out = digits.substr(zeros);
      return true;
    }
    const std::optional<double> value = parse_real(digits);
    if (value) *out = real_text(*value);
    return value.has_value();
  }

  bool begins_text() const {
    const size_t quote = in_.find_first_of("\"'", at_);
    if (quote == in_.npos || quote - at_ > 1) return false;
    return quote == at_ || std::string_view("rRuU").find(in_[at_]) != std::string_view::npos;
  }

  // Texts in a row, which Python joins.
  bool texts(std::string* out) {
    out->clear();
    do {
      if (!text(out)) return false;
      space();
    } while (begins_text());
    return true;
  }

  bool text(std::string* out) {
    const bool raw = next() == 'r' || next() == 'R';
    if (next() != '"' && next() != '\'') ++at_;
    const std::string mark(in_.substr(at_, 3) == std::string(3, next()) ? 3 : 1, next());
    at_ += mark.size();
    while (at_ < in_.size()) {
      if (in_.substr(at_, mark.size()) == mark) {
        at_ += mark.size();
        return true;
      }
      const char one = in_[at_++];
      if (one == '\n' && mark.size() == 1) return false;
      if (one == '\\' && !raw) {
        if (!escape(out)) return false;
      } else {
        *out += one;
        if (one == '\\' && at_ < in_.size()) *out += in_[at_++];
      }
    }
    return false;
  }

  bool escape(std::string* out) {
    if (at_ == in_.size()) return false;
    const char one = in_[at_++];
    const size_t place = std::string_view("\\'\"abfnrtv").find(one);
    if (place != std::string_view::npos) *out += "\\'\"\a\b\f\n\r\t\v"[place];
    else if (one == 'x' || one == 'u' || one == 'U') return code(one == 'x' ? 2 : one == 'u' ? 4 : 8, 16, out);
    else if (one >= '0' && one <= '7') return --at_, code(3, 8, out);
    else if (one == 'N') return false;
    else if (one != '\n') (*out += '\\') += one;
    return true;
  }

  // A character by its number: hexadecimal digits, or up to three octal ones.
  bool code(int most, uint32_t base, std::string* out) {
    uint32_t found = 0;
    int count = 0;
    for (; count < most && at_ < in_.size(); ++count, ++at_) {
      const char one = static_cast<char>(in_[at_] | 32);
      const auto digit = static_cast<uint32_t>(is_digit(in_[at_]) ? in_[at_] - '0' : one >= 'a' && one <= 'f' ? one - 'a' + 10 : 99);
      if (digit >= base) break;
      found = found * base + digit;
    }
    if ((base == 16 && count < most) || found > 0x10FFFF) return false;
    append_utf8(found, out);
    return true;
  }

  std::string_view in_;
  size_t at_ = 0;
};

}  // namespace

bool python_calls(std::string_view text, std::vector<ToolCall>* calls) { return PythonReader(text).list(calls); }

bool python_call(std::string_view text, ToolCall* call) { return PythonReader(text).one(call); }

std::string python_text(const PlainValue& value) {
  const bool object = value.is(PlainValue::Kind::kObject);
  if (value.is(PlainValue::Kind::kNull)) return "None";
  if (value.is(PlainValue::Kind::kFlag)) return value.whole ? "True" : "False";
  if (!object && !value.is(PlainValue::Kind::kList)) return plain_json(value);
  std::string text = object ? "{" : "[";
  for (size_t at = 0; at < value.items.size(); ++at) {
    if (at) text += ", ";
    if (object) text += quoted_text(value.keys[at]) + ": ";
    text += python_text(value.items[at]);
  }
  return text + (object ? "}" : "]");
}

}  // namespace edgedec::engine
