#include "core/base/utf8_decoder.h"

namespace edgedec::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// How many bytes of `text` belong together: a character, or the beginning of one that is wrong or not `complete`.
size_t sequence(std::string_view text, bool* valid, bool* complete) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  *valid = lead < 0x80;
  *complete = true;
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte tells short forms, surrogates and what is above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t at = 1; at < bytes; ++at) {
    if (at == text.size()) {
      *complete = false;
      return at;
    }
    if (lead == 0xED && text.size() == 2 && byte(1) > high && byte(1) < 0xC0) {  // half of a surrogate: Python waits for the third byte
      *complete = false;
      return 2;
    }
    if (byte(at) < (at == 1 ? low : 0x80) || byte(at) > (at == 1 ? high : 0xBF)) return at;
  }
  *valid = true;
  return bytes;
}

}  // namespace

void Utf8Decoder::push(std::string_view bytes, std::string* text) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    bytes = joined.append(bytes);
    held_.clear();
  }
  while (!bytes.empty()) {
    bool valid, complete;
    const size_t size = sequence(bytes, &valid, &complete);
    if (!complete) {
      held_ = bytes;
      return;
    }
    text->append(valid ? bytes.substr(0, size) : kReplacement);
    bytes.remove_prefix(size);
  }
}

void Utf8Decoder::flush(std::string* text) {
  if (!held_.empty()) text->append(kReplacement);
  if (held_.size() == 2 && held_[0] == '\xED' && static_cast<unsigned char>(held_[1]) > 0x9F) text->append(kReplacement);
  held_.clear();
}

std::string valid_utf8(std::string_view text) {
  std::string found;
  found.reserve(text.size());
  Utf8Decoder decoder;
  decoder.push(text, &found);
  decoder.flush(&found);
  return found;
}

}  // namespace edgedec::engine
