#include "engine/text/prompt.h"

#include <algorithm>

#include "engine/text/begins.h"
#include "engine/text/control_tokens.h"
#include "core/base/utf8_decoder.h"

namespace edgedec::engine {
namespace {

// Texts of a conversation and its tools, copied so that they can be guarded. U+FFFD stands there for what is not UTF-8.
class GuardedTalk {
 public:
  explicit GuardedTalk(const Talk& talk) : tools_(talk.tools.begin(), talk.tools.end()) {
    for (const Message& message : talk.messages) {
      texts_.push_back(valid_utf8(message.role));
      texts_.push_back(valid_utf8(message.content));
      fields_.push_back(message.fields ? *message.fields : PlainValue());
    }
  }

  Status guard_texts(const ControlTokens& control, std::string* marker) {
    std::vector<std::string> all = texts_;
    each_text([&](std::string* text) { all.push_back(*text); });
    EDGEDEC_TRY(guard(control, &all, marker));
    std::copy_n(all.begin(), texts_.size(), texts_.begin());
    size_t at = texts_.size();
    each_text([&](std::string* text) { *text = std::move(all[at++]); });
    return {};
  }

  std::vector<Message> messages() const {
    std::vector<Message> made;
    for (size_t at = 0; at < fields_.size(); ++at) made.push_back({texts_[2 * at], texts_[2 * at + 1], &fields_[at]});
    return made;
  }
  const std::vector<PlainValue>& tools() const { return tools_; }

 private:
  template <class Act>
  void each_text(Act act) {
    for (PlainValue& fields : fields_) fields.each_text(act);
    for (PlainValue& tool : tools_) tool.each_text(act);
  }

  std::vector<std::string> texts_;
  std::vector<PlainValue> fields_, tools_;
};

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
  EDGEDEC_TRY(tokenizer_->encode(text, true, ids));
  tokenizer_->begin(ids);
  return {};
}

Status Prompts::build(const Talk& talk, Prompt* prompt) const {
  *prompt = {};
  GuardedText rendered;
  EDGEDEC_TRY(chat_ ? render(talk, &rendered) : join(talk.messages, &rendered));
  EDGEDEC_TRY(encode(rendered, &prompt->ids));
  tokenizer_->begin(&prompt->ids);
  prompt->text = rendered.text;
  if (seen_.ids.empty() || !begins(prompt->text, seen_.text)) return {};
  // The rest is joined to the known ids only if it stands on its own: if the encoding of the whole text ends with the
  // encoding of the rest. Elsewhere (a merge across the seam) the whole encoding is used.
  const GuardedText rest = rendered.behind(seen_.text.size());
  if (rest.text.empty()) {
    prompt->ids = seen_.ids;
    return {};
  }
  std::vector<int32_t> tail;
  EDGEDEC_TRY(encode(rest, &tail));
  const std::vector<int32_t>& whole = prompt->ids;
  if (tail.empty() || tail.size() > whole.size() || !std::equal(tail.rbegin(), tail.rend(), whole.rbegin())) return {};
  std::vector<int32_t> joined = seen_.ids;
  joined.insert(joined.end(), tail.begin(), tail.end());
  prompt->ids = std::move(joined);
  return {};
}

// Control tokens are the template's alone: without one there are none.
Status Prompts::encode(const GuardedText& rendered, std::vector<int32_t>* ids) const {
  return chat_ ? tokenizer_->encode(rendered, ids) : tokenizer_->encode(rendered.text, false, ids);
}

// The contents, one below the other.
Status Prompts::join(Span<const Message> messages, GuardedText* rendered) const {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (i) rendered->text += '\n';
    rendered->text += valid_utf8(messages[i].content);
  }
  return {};
}

// Renders messages; the template makes control tokens, a text of a message never does.
Status Prompts::render(const Talk& talk, GuardedText* rendered) const {
  GuardedTalk guarded(talk);
  std::string marker, text;
  EDGEDEC_TRY(guarded.guard_texts(tokenizer_->control(), &marker));
  EDGEDEC_TRY(chat_->render({guarded.messages(), guarded.tools()}, true, &text));
  *rendered = without_markers(valid_utf8(text), marker);
  return {};
}

}  // namespace edgedec::engine
