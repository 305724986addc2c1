// UTF-8, character by character.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace edgedec::engine {

constexpr uint32_t kNotUtf8 = 0xFFFFFFFF;

inline bool begins_character(char byte) { return (byte & 0xC0) != 0x80; }

// Characters of a text in UTF-8.
inline int64_t characters(std::string_view text) { return std::count_if(text.begin(), text.end(), begins_character); }

// The character at `*at`, behind which `*at` goes; kNotUtf8, and `*at` one byte further, where there is none.
inline uint32_t next_utf8(std::string_view text, size_t* at, bool surrogates = false) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const uint32_t first = byte(*at);
  const size_t begin = (*at)++;
  if (first < 0x80) return first;
  const int more = first >= 0xF0 && first < 0xF5 ? 3 : first >= 0xE0 && first < 0xF0 ? 2 : first >= 0xC2 && first < 0xE0 ? 1 : 0;
  if (!more || text.size() - begin <= static_cast<size_t>(more)) return kNotUtf8;
  uint32_t code = first & (0x3F >> more);
  for (int i = 1; i <= more; ++i) {
    if ((byte(begin + i) & 0xC0) != 0x80) return kNotUtf8;
    code = code << 6 | (byte(begin + i) & 0x3F);
  }
  const bool short_form = (more == 2 && code < 0x800) || (more == 3 && (code < 0x10000 || code > 0x10FFFF));
  if (short_form || (!surrogates && code >= 0xD800 && code < 0xE000)) return kNotUtf8;
  *at = begin + 1 + static_cast<size_t>(more);
  return code;
}

// Appends a character; a surrogate in three bytes.
inline void append_utf8(uint32_t code, std::string* text) {
  if (code < 0x80) {
    *text += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  *text += static_cast<char>(kFirst[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) *text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
}

}  // namespace edgedec::engine
