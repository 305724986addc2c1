// Tells the thinking part of a reply from its answer, token by token: edgedec/text/reply_reader.py.
#pragma once

#include <string>
#include <string_view>

#include "core/base/span.h"
#include "engine/text/thinking.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

class ThoughtReader {
 public:
  // `prompt`: its end tells whether the reply begins in its thinking part. `before`: tokens of the part of the reply that is
  // continued. The tokenizer stays where it is.
  ThoughtReader(const Tokenizer& tokenizer, ThinkingTags tags, std::string_view prompt, Span<const int32_t> before);

  // Takes the text that a token completes; returns the parts that are certain now. A tag that is a control token counts.
  ThinkingSplitter::Parts push(int32_t token, std::string_view text);
  // Ends the reply, or a part of it; returns what was held back. The next part tells none of it again.
  ThinkingSplitter::Parts flush() { return untold(splitter_.flush()); }

 private:
  ThinkingSplitter::Parts untold(ThinkingSplitter::Parts parts);

  const Tokenizer* tokenizer_;
  ThinkingTags tags_;
  ThinkingSplitter splitter_;
  std::string told_;  // held back, and told when the earlier part ended
  bool told_thinking_ = false;
};

}  // namespace edgedec::engine
