#include "engine/text/thought_reader.h"

#include "engine/text/begins.h"
#include "engine/text/text_stream.h"

namespace edgedec::engine {

ThoughtReader::ThoughtReader(const Tokenizer& tokenizer, ThinkingTags tags, std::string_view prompt, Span<const int32_t> before)
    : tokenizer_(&tokenizer), tags_(tags), splitter_(begins_thinking(prompt, tags), tags) {
  StreamDecoder decoder(tokenizer);
  for (const int32_t token : before) push(token, decoder.push(token));
  told_ = splitter_.held();
  told_thinking_ = splitter_.thinking();
}

ThinkingSplitter::Parts ThoughtReader::push(int32_t token, std::string_view text) {
  if (!text.empty()) return untold(splitter_.push(text));
  for (const auto& [spelling, id] : tokenizer_->control())
    if (id == token && !spelling.empty() && (spelling == tags_.end || begins(tags_.begin, spelling))) return untold(splitter_.push(spelling));
  return {};
}

ThinkingSplitter::Parts ThoughtReader::untold(ThinkingSplitter::Parts parts) {
  if (told_.empty()) return parts;
  std::string& part = told_thinking_ ? parts.thinking : parts.answer;
  const bool again = begins(part, told_);
  if (again) part.erase(0, told_.size());
  if (again || !parts.thinking.empty() || !parts.answer.empty() || splitter_.thinking() != told_thinking_) told_.clear();
  return parts;
}

}  // namespace edgedec::engine
