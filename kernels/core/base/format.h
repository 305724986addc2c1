// Numbers and names in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace edgedec::engine {

inline std::string decimal(uint64_t value) {
  char digits[20];
  int at = 20;
  do digits[--at] = static_cast<char>('0' + value % 10);
  while (value /= 10);
  return {digits + at, static_cast<size_t>(20 - at)};
}
inline std::string decimal(int64_t value) {
  return value < 0 ? "-" + decimal(0 - static_cast<uint64_t>(value)) : decimal(static_cast<uint64_t>(value));
}
inline std::string decimal(int value) { return decimal(static_cast<int64_t>(value)); }

// A text out of a file or from a user in quotes, cut, with ? for bytes that could steer a terminal.
inline std::string quoted(std::string_view text, size_t most = 40) {
  std::string shown = "'";
  for (char one : text.substr(0, most)) shown += (one < ' ' && one >= 0) || one == 0x7F || one == '\'' ? '?' : one;
  while (text.size() > most && (shown.back() & 0xC0) == 0x80) shown.pop_back();  // half a character
  if (text.size() > most && (shown.back() & 0x80)) shown.pop_back();
  return shown + "'";
}

}  // namespace edgedec::engine
