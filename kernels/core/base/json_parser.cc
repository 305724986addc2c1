#include <algorithm>

#include "core/base/json.h"
#include "core/base/utf8.h"

namespace edgedec::engine {

// A reader of one text, by recursive descent.
class JsonParser {
 public:
  JsonParser(std::string_view text, const JsonLimits& limits, Json* json) : in_(text), limits_(limits), json_(*json) {}

  bool document() {
    uint32_t root;
    if (!value(0, &root)) return false;
    json_.root_ = root;
    space();
    return at_ == in_.size();
  }

 private:
  using Kind = JsonValue::Kind;

  void space() {
    while (at_ < in_.size() && (in_[at_] == ' ' || in_[at_] == '\n' || in_[at_] == '\t' || in_[at_] == '\r')) ++at_;
  }
  bool take(char one) { return at_ < in_.size() && in_[at_] == one && (++at_, true); }
  bool take(std::string_view word) { return in_.substr(at_, word.size()) == word && (at_ += word.size(), true); }
  bool digit() const { return at_ < in_.size() && in_[at_] >= '0' && in_[at_] <= '9'; }

  bool value(int depth, uint32_t* made) {
    space();
    if (at_ >= in_.size() || json_.nodes_.size() >= limits_.values || depth > limits_.depth) return false;
    Json::Node node;
    switch (in_[at_]) {
      case '{': return ++at_, container(depth, '}', Kind::kObject, made);
      case '[': return ++at_, container(depth, ']', Kind::kList, made);
      case '"':
        node.kind = Kind::kText;
        if (!string(&node.begin, &node.count)) return false;
        break;
      case 't': case 'f':
        node.kind = Kind::kFlag;
        node.flag = in_[at_] == 't';
        if (!take(node.flag ? "true" : "false")) return false;
        break;
      case 'n':
        if (!take("null")) return false;
        break;
      default:
        if (!number(&node)) return false;
    }
    return add(node, made);
  }

  bool add(const Json::Node& node, uint32_t* made) {
    *made = static_cast<uint32_t>(json_.nodes_.size());
    json_.nodes_.push_back(node);
    return true;
  }

  bool container(int depth, char end, Kind kind, uint32_t* made) {
    std::vector<uint32_t> found;
    space();
    if (!take(end)) {
      do {
        uint32_t key_begin = 0, key_size = 0, child;
        if (kind == Kind::kObject) {
          space();
          if (at_ >= in_.size() || in_[at_] != '"' || !string(&key_begin, &key_size)) return false;
          space();
          if (!take(':')) return false;
        }
        if (!value(depth + 1, &child)) return false;
        json_.nodes_[child].key_begin = key_begin;
        json_.nodes_[child].key_size = key_size;
        found.push_back(child);
        space();
      } while (take(','));
      if (!take(end)) return false;
    }
    if (kind == Kind::kObject) merge(&found);
    Json::Node node;
    node.kind = kind;
    node.begin = static_cast<uint32_t>(json_.children_.size());
    node.count = static_cast<uint32_t>(found.size());
    json_.children_.insert(json_.children_.end(), found.begin(), found.end());
    return add(node, made);
  }

  std::string_view key_of(uint32_t node) const {
    return json_.bytes(json_.nodes_[node].key_begin, json_.nodes_[node].key_size);
  }

  // Leaves the last value of a repeated key in the place of the first one.
  void merge(std::vector<uint32_t>* found) const {
    std::vector<uint32_t> order(found->size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const int side = key_of((*found)[a]).compare(key_of((*found)[b]));
      return side ? side < 0 : a < b;
    });
    constexpr uint32_t kGone = 0xFFFFFFFF;
    for (size_t i = 0; i < order.size();) {
      size_t end = i + 1;
      while (end < order.size() && key_of((*found)[order[end]]) == key_of((*found)[order[i]])) ++end;
      const uint32_t last = (*found)[order[end - 1]];
      for (size_t j = i + 1; j < end; ++j) (*found)[order[j]] = kGone;
      (*found)[order[i]] = last;
      // A key that was removed above is compared no more: `i` goes on behind it.
      i = end;
    }
    found->erase(std::remove(found->begin(), found->end(), kGone), found->end());
  }

  bool number(Json::Node* node) {
    const size_t start = at_;
    take('-');
    if (!take('0')) {
      if (!digit()) return false;
      while (digit()) ++at_;
    }
    bool whole = true;
    if (at_ + 1 < in_.size() && in_[at_] == '.' && in_[at_ + 1] >= '0' && in_[at_ + 1] <= '9') {
      whole = false;
      for (++at_; digit();) ++at_;
    }
    const size_t mantissa = at_;
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (!digit()) at_ = mantissa;  // as in Python: the number ends before the letter, and that is no JSON
      else whole = false;
      while (at_ != mantissa && digit()) ++at_;
    }
    const std::string_view literal = in_.substr(start, at_ - start);
    if (literal.size() > kMostDigits) return false;
    const std::optional<double> real = parse_real(literal);
    if (!real) return false;
    node->real = *real;
    node->kind = whole ? Kind::kWhole : Kind::kReal;
    if (whole) {
      node->begin = static_cast<uint32_t>(json_.text_.size());
      node->count = static_cast<uint32_t>(literal.size());
      json_.text_.append(literal);
    }
    return true;
  }

  bool hex4(uint32_t* code) {
    *code = 0;
    if (in_.size() - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      const char one = in_[at_ + i];
      const int digit = one >= '0' && one <= '9' ? one - '0' : (one | 32) >= 'a' && (one | 32) <= 'f' ? (one | 32) - 'a' + 10 : -1;
      if (digit < 0) return false;
      *code = *code * 16 + static_cast<uint32_t>(digit);
    }
    at_ += 4;
    return true;
  }

  bool escape() {
    if (at_ >= in_.size()) return false;
    const char one = in_[at_++];
    const size_t place = std::string_view("\"\\/bfnrt").find(one);
    if (place != std::string_view::npos) {
      json_.text_ += "\"\\/\b\f\n\r\t"[place];
      return true;
    }
    uint32_t code, low;
    if (one != 'u' || !hex4(&code)) return false;
    const size_t behind = at_;
    if (code >= 0xD800 && code < 0xDC00 && take("\\u")) {
      if (hex4(&low) && low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      else at_ = behind;
    }
    append_utf8(code, &json_.text_);
    return true;
  }

  bool string(uint32_t* begin, uint32_t* size) {
    const size_t start = json_.text_.size();
    for (++at_; at_ < in_.size();) {
      const auto one = static_cast<unsigned char>(in_[at_]);
      if (one < 0x20) return false;
      if (one == '"') {
        ++at_;
        *begin = static_cast<uint32_t>(start);
        *size = static_cast<uint32_t>(json_.text_.size() - start);
        return true;
      }
      ++at_;
      if (one != '\\') json_.text_ += static_cast<char>(one);
      else if (!escape()) return false;
    }
    return false;
  }

  static constexpr size_t kMostDigits = 4300;  // as in Python
  std::string_view in_;
  const JsonLimits& limits_;
  Json& json_;
  size_t at_ = 0;
};

bool Json::parse(std::string_view text, const JsonLimits& limits) {
  nodes_.clear();
  children_.clear();
  text_.clear();
  const bool fits = text.size() <= limits.bytes && text.size() < 0x7FFFFFFF;
  if (fits && is_utf8(text) && JsonParser(text, limits, this).document()) return true;
  nodes_.clear();
  return false;
}

}  // namespace edgedec::engine
