#include "engine/text/call_scanner.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "engine/text/begins.h"
#include "engine/text/letters.h"
#include "engine/text/white_space.h"

namespace edgedec::engine {
namespace {

// The end of a JSON value, of which brackets and texts are followed, not more: edgedec/text/tool_calls/json_end.py.
class JsonEnd {
 public:
  bool over = false, failed = false, scalar = false;

  // Bytes at the beginning of `text` that belong to the value.
  size_t find(std::string_view text) {
    for (size_t at = 0; at < text.size(); ++at) {
      const char one = text[at];
      if (!at) {
        scalar = (one > 0 && is_letter(static_cast<uint32_t>(one))) || one == '-';
        failed = !scalar && one != '"' && one != '{' && one != '[';
      } else if (scalar) {
        over = (one > 0 && is_space(static_cast<uint32_t>(one))) || std::string_view(",]};<").find(one) != std::string_view::npos;
      }
      if (over || failed) return at;
      if (!scalar) follow(one);
      if (over || failed) return at + 1;
    }
    return text.size();
  }

 private:
  void follow(char one) {
    if (in_text_) {
      in_text_ = escaped_ || one != '"';
      escaped_ = one == '\\' && !escaped_;
    } else if (one == '"') {
      in_text_ = true;
    } else if (one == '{' || one == '[') {
      open_ += one == '{' ? '}' : ']';
    } else if (one == '}' || one == ']') {
      failed = open_.back() != one;
      open_.pop_back();
    }
    over = !(!open_.empty() || in_text_ || failed);
  }

  std::string open_;
  bool in_text_ = false, escaped_ = false;
};

// Bytes at the end of `text` that may be the beginning of a mark.
template <class Marks>
size_t partial(std::string_view text, const Marks& marks) {
  size_t longest = 0;
  for (std::string_view mark : marks)
    for (size_t size = std::min(mark.size() - 1, text.size()); size > longest; --size)
      if (text.substr(text.size() - size) == mark.substr(0, size)) longest = size;
  return longest;
}

// The earliest mark in `text`, of those at one place the longest: its number; -1: there is none.
template <class Marks>
int first_mark(std::string_view text, const Marks& marks, size_t* at, size_t* size) {
  int found = -1, number = 0;
  for (std::string_view mark : marks) {
    const size_t place = text.find(mark);
    if (place != text.npos && (found < 0 || place < *at || (place == *at && mark.size() > *size))) {
      found = number;
      *at = place;
      *size = mark.size();
    }
    ++number;
  }
  return found;
}

}  // namespace

std::string CallScanner::take_content() {
  std::string taken = content_.substr(0, safe_.content);
  content_.erase(0, safe_.content);
  safe_.content = 0;
  return taken;
}

void CallScanner::settle() {
  if (at_ > size_t{1} << 12) {  // text that nobody reads again
    text_.erase(0, at_);
    if (held_) held_ = *held_ - std::min(*held_, at_);
    at_ = 0;
  }
  safe_ = {at_, content_.size(), calls_.size()};
}

void CallScanner::again() {
  at_ = safe_.at;
  content_.resize(safe_.content);
  calls_.resize(safe_.calls);
  held_.reset();
  waits_ = false;
}

void CallScanner::release() {
  if (held_) content_.append(text_, *held_, at_ - *held_);
  held_.reset();
}

void CallScanner::begin(std::string name) {
  held_.reset();
  calls_.push_back({std::move(name), ""});
}

bool CallScanner::content_until(Span<const std::string_view> marks, size_t* which) {
  size_t place = 0, size = 0;
  const int found = first_mark(rest(), marks, &place, &size);
  if (found >= 0) {
    const size_t end = at_ + place;
    const size_t text = without_space_at_end(rest().substr(0, place)).size();
    content_.append(text_, at_, text);
    at_ += text;
    const size_t spaces = end - at_;
    settle();
    hold();
    at_ += spaces + size;
    *which = static_cast<size_t>(found);
    return true;
  }
  const std::string_view left = rest();
  if (ended_) {
    content_ += calls_.empty() ? left : without_space_at_end(left);
    at_ = text_.size();
  } else {
    const size_t text = without_space_at_end(left.substr(0, left.size() - partial(left, marks))).size();
    content_.append(left.substr(0, text));
    at_ += text;
  }
  settle();
  return wait();
}

bool CallScanner::space() {
  at_ = text_.size() - without_space_in_front(rest()).size();
  if (at_ < text_.size() || ended_) return true;
  return wait();
}

bool CallScanner::next_is(Marks texts, int* which) {
  *which = -1;
  int number = 0;
  bool possible = false;
  for (std::string_view text : texts) {
    if (starts(text)) {
      at_ += text.size();
      *which = number;
      return true;
    }
    possible |= begins(text, rest());
    ++number;
  }
  return !possible || ended_ || wait();
}

bool CallScanner::expect(Marks texts, int* which) {
  int found;
  if (!space() || !next_is(texts, &found)) return false;
  if (which) *which = found;
  return found >= 0;
}

bool CallScanner::until(Marks marks, size_t most, std::string* text, int* which) {
  size_t place = 0, size = 0, longest = 0;
  const int found = first_mark(rest(), marks, &place, &size);
  for (std::string_view mark : marks) longest = std::max(longest, mark.size());
  if (found < 0) {
    const bool too_long = most && rest().size() > most && static_cast<size_t>(characters(rest())) > most + longest;
    return !too_long && wait();
  }
  *text = rest().substr(0, place);
  if (most && static_cast<size_t>(characters(*text)) > most) return false;
  at_ += place + size;
  if (which) *which = found;
  return true;
}

bool CallScanner::pieces_until(std::string_view mark, std::string_view keep, std::string* out) {
  const std::string both = std::string(keep) + std::string(mark);
  size_t place = 0, size = 0;
  if (first_mark(rest(), Marks{both, mark}, &place, &size) < 0) {
    *out += rest();
    at_ = text_.size();
    return wait();
  }
  *out += rest().substr(0, place);
  at_ += place + size;
  return true;
}

bool CallScanner::value(std::string* out) {
  if (!space()) return false;
  JsonEnd end;
  const size_t count = end.find(rest());
  *out += rest().substr(0, count);
  at_ += count;
  if (end.failed || end.over) return end.over && !end.failed;
  return wait() || (!waits_ && end.scalar);  // a number has no end of its own
}

}  // namespace edgedec::engine
