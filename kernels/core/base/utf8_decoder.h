// Bytes to text as Python's incremental decoder reads them with "replace": each wrong sequence becomes U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace edgedec::engine {

class Utf8Decoder {
 public:
  // Appends the characters that `bytes` complete.
  void push(std::string_view bytes, std::string* text);

  // Appends U+FFFD for a character that is incomplete, and starts afresh.
  void flush(std::string* text);

  // The bytes of a character that is incomplete.
  const std::string& held() const { return held_; }

 private:
  std::string held_;  // the beginning of a character
};

// A text with U+FFFD for each sequence that is not UTF-8.
std::string valid_utf8(std::string_view text);

// Bytes of the character at the beginning of valid UTF-8.
inline size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return bytes < text.size() ? bytes : text.size();
}

}  // namespace edgedec::engine
