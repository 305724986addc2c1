// Characters of texts in chat templates.
#pragma once

#include "core/base/utf8.h"

namespace edgedec::engine {

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
