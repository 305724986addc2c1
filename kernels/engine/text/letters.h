// Letters and digits, as far as calls of tools are told from other text by them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/utf8.h"

namespace edgedec::engine {

// Whether a character is a letter or a digit. Outside of ASCII all are that but punctuation, symbols, and those that are none.
inline bool is_letter(uint32_t code) {
  if (code < 0x80) return (code >= '0' && code <= '9') || ((code | 32) >= 'a' && (code | 32) <= 'z');
  constexpr uint32_t kOthers[][2] = {{0x80, 0xA9},     {0xAB, 0xB4},     {0xB6, 0xB9},     {0xBB, 0xBF},     {0xD7, 0xD7},
                                     {0xF7, 0xF7},     {0x2000, 0x206F}, {0x20A0, 0x20CF}, {0x2190, 0x245F}, {0x2500, 0x2BFF},
                                     {0x3000, 0x3004}, {0x3008, 0x3020}, {0xD800, 0xF8FF}, {0xFDD0, 0xFDEF}, {0xFE00, 0xFE6F},
                                     {0xFF01, 0xFF0F}, {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65}, {0xFFE0, 0xFFFF},
                                     {0x1F000, 0x1FAFF}};
  for (const auto& [first, last] : kOthers)
    if (code >= first && code <= last) return false;
  return code != kNotUtf8;
}

// Whether a text is letters, digits and characters of `others`, and not empty.
inline bool is_word(std::string_view text, std::string_view others) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t code = next_utf8(text, &at);
    if (!is_letter(code) && (code >= 0x80 || others.find(static_cast<char>(code)) == others.npos)) return false;
  }
  return !text.empty();
}

}  // namespace edgedec::engine
