// Characters of texts in chat templates.
#pragma once

#include <string>
#include <string_view>

#include "core/base/utf8.h"

namespace edgedec::engine {

// A text as Jinja escapes it beside one that is marked as safe.
inline std::string escaped(std::string_view text) {
  std::string made;
  for (char one : text) {
    const size_t at = std::string_view("&<>'\"").find(one);
    constexpr const char* kEscapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    at == std::string_view::npos ? made.append(1, one) : made.append(kEscapes[at]);
  }
  return made;
}

// Attributes of Python's dict, which come before the fields of an object.
inline bool is_of_dict(std::string_view name) {
  for (std::string_view one : {"clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"})
    if (one == name) return true;
  return false;
}

// The characters of valid UTF-8 from number `first` to number `last`.
inline std::string_view part(std::string_view text, int64_t first, int64_t last) {
  int64_t number = -1;
  size_t start = text.size(), end = text.size();
  for (size_t at = 0; at < text.size(); ++at) {
    if (!begins_character(text[at])) continue;
    ++number;
    if (number == first) start = at;
    if (number == last) {
      end = at;
      break;
    }
  }
  return text.substr(start, end - start);
}

}  // namespace edgedec::engine
