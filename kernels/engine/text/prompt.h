// From messages to token ids, keeping the ids that the model really produced: edgedec/session/prompt.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

// A rendered conversation and its token ids.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};

// A reply that a limit or the user cut: its prompt, its tokens so far, and the text shown of them. `bound`: mirostat's
// state behind the tokens, where they were drawn with it.
struct Unfinished {
  Prompt prompt;
  std::vector<int32_t> tokens;
  std::string shown;
  std::optional<double> bound;
};

// Renders conversations; without a template, as plain text to be continued.
class Prompts {
 public:
  // Both stay where they are; `chat` may be null.
  Prompts(const Tokenizer& tokenizer, const ChatTemplate* chat) : tokenizer_(&tokenizer), chat_(chat) {}

  // Notes that the model has seen `text` as exactly these ids, which end with a new turn.
  void remember(std::string text, Span<const int32_t> ids);
  // Forgets the turn that was remembered last.
  void take_back();
  // Starts a new conversation.
  void forget();

  // The ids of a text to be continued as it stands. It is the user's own: its control tokens are tokens.
  Status of_text(std::string_view text, std::vector<int32_t>* ids) const;

  // The conversation as a prompt for the next reply. Where a text may become too many tokens is the caller's to check
  // before: Tokenizer::most_bytes.
  Status build(const Talk& talk, Prompt* prompt) const;

  // The conversation up to the end of the last reply, with the ids that the model has seen.
  const Prompt& seen() const { return seen_; }

 private:
  Status encode(const GuardedText& rendered, std::vector<int32_t>* ids) const;
  Status join(Span<const Message> messages, GuardedText* rendered) const;
  Status render(const Talk& talk, GuardedText* rendered) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_;
  Prompt seen_;
  std::vector<std::pair<size_t, size_t>> ends_;  // bytes and tokens of what was seen before each turn
};

}  // namespace edgedec::engine
