#include "engine/text/text_stream.h"

#include <algorithm>

namespace edgedec::engine {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, Span<const int32_t> spelled)
    : tokenizer_(&tokenizer), spelled_(spelled.begin(), spelled.end()), strip_(tokenizer.adds_space()) {}

std::string StreamDecoder::push(int32_t token) {
  if (std::find(spelled_.begin(), spelled_.end(), token) != spelled_.end()) {
    return valid_utf8(tokenizer_->spelling(token));
  }
  piece_.clear();
  tokenizer_->append_piece(token, &piece_);
  std::string_view bytes = piece_;
  if (strip_ && !bytes.empty()) {
    strip_ = false;
    if (bytes[0] == ' ') bytes.remove_prefix(1);
  }
  std::string text;
  utf8_.push(bytes, &text);
  return text;
}

std::string StreamDecoder::flush() {
  strip_ = tokenizer_->adds_space();
  std::string text;
  utf8_.flush(&text);
  return text;
}

std::string decoded(const Tokenizer& tokenizer, Span<const int32_t> ids, Span<const int32_t> spelled) {
  StreamDecoder decoder(tokenizer, spelled);
  std::string text;
  for (const int32_t token : ids) text += decoder.push(token);
  return text + decoder.flush();
}

Status TextStream::of(const Tokenizer& tokenizer, Span<const std::string> stops, Span<const int32_t> tokens,
                      std::string_view shown, Span<const int32_t> spelled, TextStream* stream) {
  TextStream made(tokenizer);
  made.decoder_ = StreamDecoder(tokenizer, spelled);
  EDGEDEC_TRY(StopStrings::of(stops, &made.stops_));
  std::string before;
  for (const int32_t token : tokens) before += made.decoder_.push(token);
  made.whole_ = made.stops_.push(before);
  if (made.stops_.hit()) {  // a stop string that was no stop string then
    EDGEDEC_TRY(StopStrings::of(stops, &made.stops_));
    made.whole_ = before;
  }
  if (shown.substr(0, made.whole_.size()) == made.whole_) made.shown_ahead_ = shown.substr(made.whole_.size());
  *stream = std::move(made);
  return {};
}

std::string TextStream::flush(bool characters) {
  std::string text = characters ? stops_.push(decoder_.flush()) : std::string();
  text += stops_.flush();
  return shown_from(std::move(text));
}

// Leaves out of a text, character by character, what was shown of it.
std::string TextStream::shown_from(std::string text) {
  whole_ += text;
  size_t same = 0;
  while (same < shown_ahead_.size() && same < text.size()) {
    const std::string_view left = std::string_view(text).substr(same);
    const std::string_view one = left.substr(0, character_bytes(left));
    if (std::string_view(shown_ahead_).substr(same, one.size()) != one) {
      shown_ahead_.clear();
      return text.substr(same);
    }
    same += one.size();
  }
  shown_ahead_.erase(0, same);
  return text.substr(same);
}

}  // namespace edgedec::engine
