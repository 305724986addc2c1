#include "engine/text/prompt.h"

#include <algorithm>

#include "engine/text/begins.h"
#include "engine/text/control_tokens.h"
#include "engine/text/utf8_decoder.h"

namespace edgedec::engine {
namespace {

// The messages with texts in `texts`, two for each: U+FFFD stands there for what is not UTF-8.
std::vector<Message> messages_of(const std::vector<std::string>& texts) {
  std::vector<Message> messages;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) messages.push_back({texts[i], texts[i + 1]});
  return messages;
}

std::vector<std::string> texts_of(Span<const Message> messages) {
  std::vector<std::string> texts;
  for (const Message& message : messages) {
    texts.push_back(valid_utf8(message.role));
    texts.push_back(valid_utf8(message.content));
  }
  return texts;
}

std::string without(std::string_view text, std::string_view marker) {
  std::string out;
  for (size_t at; (at = text.find(marker)) != text.npos; text.remove_prefix(at + marker.size())) out += text.substr(0, at);
  return out += text;
}

}  // namespace

void Prompts::remember(std::string text, Span<const int32_t> ids) {
  const bool goes_on = begins(text, seen_.text) && ids.size() >= seen_.ids.size() &&
                       std::equal(seen_.ids.begin(), seen_.ids.end(), ids.begin());
  if (!goes_on) ends_.clear();
  ends_.emplace_back(goes_on ? seen_.text.size() : 0, goes_on ? seen_.ids.size() : 0);
  seen_ = {std::move(text), {ids.begin(), ids.end()}};
}

void Prompts::take_back() {
  const std::pair<size_t, size_t> end = ends_.empty() ? std::pair<size_t, size_t>() : ends_.back();
  if (!ends_.empty()) ends_.pop_back();
  seen_.text.resize(end.first);
  seen_.ids.resize(end.second);
}

void Prompts::forget() {
  seen_ = {};
  ends_.clear();
}

Status Prompts::of_text(std::string_view text, std::vector<int32_t>* ids) const {
  EDGEDEC_TRY(tokenizer_->encode(text, false, ids));
  tokenizer_->begin(ids);
  return {};
}

Status Prompts::build(Span<const Message> messages, Prompt* prompt) const {
  EDGEDEC_TRY(render(messages, prompt));
  if (seen_.ids.empty() || !begins(prompt->text, seen_.text)) return {};
  // The rest is joined to the known ids only if it stands on its own: if the encoding of the whole text ends with the
  // encoding of the rest. Elsewhere (a merge across the seam) the whole encoding is used.
  const std::string_view rest = std::string_view(prompt->text).substr(seen_.text.size());
  if (rest.empty()) {
    prompt->ids = seen_.ids;
    return {};
  }
  std::vector<int32_t> tail;
  EDGEDEC_TRY(tokenizer_->encode(rest, chat_ != nullptr, &tail));
  const std::vector<int32_t>& whole = prompt->ids;
  if (tail.empty() || tail.size() > whole.size() || !std::equal(tail.rbegin(), tail.rend(), whole.rbegin())) return {};
  std::vector<int32_t> joined = seen_.ids;
  joined.insert(joined.end(), tail.begin(), tail.end());
  prompt->ids = std::move(joined);
  return {};
}

Status Prompts::render(Span<const Message> messages, Prompt* prompt) const {
  *prompt = {};
  const std::vector<std::string> texts = texts_of(messages);
  if (chat_) {
    const std::vector<Message> valid = messages_of(texts);
    EDGEDEC_TRY(chat_->render(valid, true, &prompt->text));
    return encode_chat(messages, &prompt->ids);
  }
  for (size_t i = 1; i < texts.size(); i += 2) {
    if (i > 1) prompt->text += '\n';
    prompt->text += texts[i];
  }
  return of_text(prompt->text, &prompt->ids);
}

// Renders messages and encodes the result; the template makes control tokens, a text of a message never does.
Status Prompts::encode_chat(Span<const Message> messages, std::vector<int32_t>* ids) const {
  const ControlTokens& control = tokenizer_->control();
  std::vector<std::string> texts = texts_of(messages);
  std::string marker, text;
  EDGEDEC_TRY(guard(control, &texts, &marker));
  EDGEDEC_TRY(chat_->render(messages_of(texts), true, &text));
  if (marker.empty()) {
    EDGEDEC_TRY(tokenizer_->encode(text, true, ids));
  } else {
    for (const PromptPart& part : split_control(control, text, marker)) {
      if (part.token >= 0) {
        ids->push_back(part.token);
      } else {
        EDGEDEC_TRY(tokenizer_->encode(without(part.text, marker), false, ids));
      }
    }
  }
  tokenizer_->begin(ids);
  return {};
}

}  // namespace edgedec::engine
