// From a reply's tokens to the text that is shown: whole characters, and no stop string. edgedec/session/text_stream.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/stop_strings.h"
#include "engine/text/tokenizer.h"
#include "core/base/utf8_decoder.h"

namespace edgedec::engine {

// Turns ids into text one by one. Control tokens in `spelled` are written as the vocabulary spells them; others are silent.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, Span<const int32_t> spelled = {});

  // The text that `token` completes; empty while a character is incomplete.
  std::string push(int32_t token);

  // U+FFFD if the ids ended inside a character. The decoder then starts afresh.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  std::vector<int32_t> spelled_;
  Utf8Decoder utf8_;
  bool strip_;
  std::string piece_;
};

// The text of ids.
std::string decoded(const Tokenizer& tokenizer, Span<const int32_t> ids, Span<const int32_t> spelled = {});

class TextStream {
 public:
  // `tokens` are those of the part that is continued, `shown` is the text that it was shown as. Control tokens in `spelled`
  // are text too. kUsage: a stop string is empty.
  static Status of(const Tokenizer& tokenizer, Span<const std::string> stops, Span<const int32_t> tokens,
                   std::string_view shown, Span<const int32_t> spelled, TextStream* stream);

  explicit TextStream(const Tokenizer& tokenizer) : decoder_(tokenizer) {}

  // The text that a token completes and that was not shown yet.
  std::string push(int32_t token) { return shown_from(stops_.push(decoder_.push(token))); }

  // The text held back; with `characters` also U+FFFD for a character that is incomplete.
  std::string flush(bool characters);

  // Whether a stop string was found; no text follows.
  bool stopped() const { return stops_.hit(); }
  // Text of the reply from its beginning, as if it had never been cut.
  const std::string& whole() const { return whole_; }

 private:
  std::string shown_from(std::string text);

  StreamDecoder decoder_;
  StopStrings stops_;
  std::string whole_;
  std::string shown_ahead_;
};

}  // namespace edgedec::engine
