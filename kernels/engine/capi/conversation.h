// Prompts that fit the context: conversations without their oldest turns where those do not. edgedec/session/fit.py.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/prompt.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

class Conversation {
 public:
  // `chat` may be null: messages are then text to continue. `capacity`: tokens of the context.
  Conversation(const Tokenizer& tokenizer, const ChatTemplate* chat, int64_t capacity)
      : tokenizer_(tokenizer), prompts_(tokenizer, chat), capacity_(capacity) {}

  // Makes the prompt for a reply of at most `max_tokens` tokens (0: no limit), without the oldest turns that do not fit;
  // `dropped` messages were left out. `said`: tokens of the reply that stand behind the prompt already.
  Status fit(const Talk& talk, int64_t max_tokens, size_t said, Prompt* prompt, size_t* dropped);
  // The ids of a text to be continued as it stands.
  Status of_text(std::string_view text, std::vector<int32_t>* ids) const;
  // Tokens that a reply without a limit may have, so that another turn fits behind it.
  int64_t reply_room(size_t prompt) const;

  Prompts& prompts() { return prompts_; }
  const Prompts& prompts() const { return prompts_; }

 private:
  Status build(const Talk& talk, Prompt* prompt) const;
  Status check_length(size_t bytes, int64_t times) const;

  const Tokenizer& tokenizer_;
  Prompts prompts_;
  int64_t capacity_;
};

}  // namespace edgedec::engine
