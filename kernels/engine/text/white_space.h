// White space as Python's str knows it.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/utf8.h"

namespace edgedec::engine {

inline bool is_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

inline std::string_view without_space_in_front(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    if (!is_space(next_utf8(text, &at))) return text.substr(start);
  }
  return {};
}

inline std::string_view without_space_at_end(std::string_view text) {
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start && (text[start] & 0xC0) == 0x80) --start;
    size_t at = start;
    if (!is_space(next_utf8(text, &at)) || at != text.size()) break;
    text = text.substr(0, start);
  }
  return text;
}

}  // namespace edgedec::engine
