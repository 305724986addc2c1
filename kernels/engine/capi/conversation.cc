#include "engine/capi/conversation.h"

#include <algorithm>

#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr double kMostFilled = 0.75;  // of the context, once turns are dropped: or every further turn would drop one
constexpr int64_t kLeastRoom = 8;     // one part in so many of the context is a reply's in any case

// Where each turn, a user's message with what follows it, begins; the end of the messages follows.
std::vector<size_t> turns_of(Span<const Message> messages, size_t first) {
  std::vector<size_t> turns;
  for (size_t at = first; at < messages.size(); ++at)
    if (messages[at].role == "user" || turns.empty()) turns.push_back(at);
  return turns;
}

}  // namespace

// Fails for text that certainly becomes more than `times` as many tokens as the context holds.
Status Conversation::check_length(size_t bytes, int64_t times) const {
  if (bytes <= tokenizer_.most_bytes(static_cast<uint64_t>(times * capacity_))) return {};
  return {Code::kContextFull,
          "the prompt has more than " + decimal(times * capacity_) + " tokens, and the context holds " + decimal(capacity_),
          "shorten it to at most " + decimal(capacity_ - 1) + " or use a larger context"};
}

Status Conversation::of_text(std::string_view text, std::vector<int32_t>* ids) const {
  EDGEDEC_TRY(check_length(text.size(), 1));
  return prompts_.of_text(text, ids);
}

int64_t Conversation::reply_room(size_t prompt) const {
  const auto filled = static_cast<int64_t>(static_cast<double>(capacity_) * kMostFilled);
  return std::max({filled - static_cast<int64_t>(prompt), capacity_ / kLeastRoom, int64_t{1}});
}

Status Conversation::fit(const Talk& talk, int64_t max_tokens, size_t said, Prompt* prompt, size_t* dropped) {
  const Span<const Message> messages = talk.messages;
  const size_t first = !messages.empty() && messages[0].role == "system";
  const std::vector<size_t> turns = turns_of(messages, first);
  const size_t past = turns.empty() ? 0 : turns.size() - 1;
  std::vector<Message> kept;
  Status last;  // of the latest attempt
  // The tokens of a prompt with the newest `newest` past turns; many where there is none.
  const auto tokens = [&](size_t newest) -> int64_t {
    kept.assign(messages.begin(), messages.begin() + first);
    kept.insert(kept.end(), messages.begin() + (turns.empty() ? first : turns[past - newest]), messages.end());
    last = build({kept, talk.tools}, prompt);
    return last.ok() ? static_cast<int64_t>(prompt->ids.size() + said) : INT64_MAX;
  };
  const auto failed = [&] { return !last.ok() && last.code() != Code::kContextFull; };
  const int64_t longest = max_tokens ? max_tokens : capacity_;
  const int64_t room = std::max(std::min(longest, capacity_ / kLeastRoom), int64_t{1});
  int64_t fitting = -1;
  auto too_many = static_cast<int64_t>(past);
  if (tokens(past) <= capacity_ - room) {
    fitting = static_cast<int64_t>(past);
  } else {
    while (!failed() && too_many - fitting > 1) {
      const int64_t middle = (fitting + too_many) / 2;
      const int64_t count = tokens(static_cast<size_t>(middle));
      (count != INT64_MAX && static_cast<double>(count) <= static_cast<double>(capacity_) * kMostFilled ? fitting : too_many) =
          middle;
    }
    if (failed()) return last;
    fitting = std::max<int64_t>(fitting, 0);
    tokens(static_cast<size_t>(fitting));
  }
  *dropped = turns.empty() ? 0 : turns[past - static_cast<size_t>(fitting)] - first;
  return last;
}

Status Conversation::build(const Talk& talk, Prompt* prompt) const {
  size_t bytes = 0;
  for (const Message& message : talk.messages) bytes += message.content.size();
  EDGEDEC_TRY(check_length(bytes, 2));
  return prompts_.build(talk, prompt);
}

}  // namespace edgedec::engine
