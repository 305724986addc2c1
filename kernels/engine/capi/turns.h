// The turns of an open model: the prompt of each reply, and what is kept of both for the next one. edgedec/session/chat.py.
//
// A turn is begin, passes, end. Engine::run makes the passes, or somebody else does: see engine/web.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "core/base/status.h"
#include "engine/capi/chat_message.h"
#include "engine/capi/conversation.h"
#include "engine/capi/figures.h"
#include "engine/capi/form.h"
#include "engine/capi/reply.h"
#include "engine/bundle/manifest.h"

namespace edgedec::engine {

// A conversation as it stands: its messages, and the text and ids that the model has seen of it.
struct SavedConversation {
  ChatMessages messages;
  Prompt seen;
  DrawParams params;
  std::optional<Unfinished> unfinished = {};
};

class Turns {
 public:
  // Everything handed in lives longer. `chat` may be null.
  Turns(const Tokenizer& tokenizer, const ChatTemplate* chat, const Manifest& manifest, int64_t capacity, Clock& clock,
        const Flag& stop)
      : tokenizer_(tokenizer), manifest_(manifest), chat_(chat), conversation_(tokenizer, chat, capacity),
        forms_(tokenizer, manifest.spec), clock_(clock), stop_(stop), params_(manifest.preset.sampling) {}

  // Begins a reply: to a conversation, behind a text, behind tokens, or where the latest reply was cut. `speculation` may be
  // null. After a failure nothing has begun.
  Status begin(ChatMessages messages, ReplyRequest request, Engine& engine, const Speculation* speculation);
  Status begin(std::string_view text, ReplyRequest request, Engine& engine, const Speculation* speculation);
  Status begin(Span<const int32_t> prompt, ReplyRequest request, Engine& engine, const Speculation* speculation);
  Status begin_more(ReplyRequest request, Engine& engine, const Speculation* speculation);
  // The prompt of the reply that began, in tokens, those of them in the cache, and messages that were left out of it.
  struct Begun {
    int64_t prompt, reused, dropped;
  };
  Begun begun() const {
    return {static_cast<int64_t>(turn_.prompt.ids.size() + turn_.before.size()), reply_->reused(),
            static_cast<int64_t>(turn_.dropped)};
  }
  // Hears the tokens of the reply that began.
  ReplyListener& listener() { return *reply_; }
  // Ends the reply, whose passes came to `done`: keeps it for the next turn and tells its figures.
  Status end(const Status& done);

  const ReplyFigures& figures() const { return figures_; }
  SavedConversation saved() const { return {messages_, conversation_.prompts().seen(), params_, unfinished_}; }
  void restore(SavedConversation saved);
  void forget() { restore({{}, {}, params_}); }

 private:
  // The turn under way.
  struct Turn {
    ReplyRequest request;
    ChatMessages messages;  // those of the prompt; none where it was no conversation
    Prompt prompt;
    std::vector<int32_t> before;  // tokens of the reply that is continued
    std::string shown;
    std::optional<double> bound;
    std::unique_ptr<TokenGrammar> grammar;
    const CallFamily* family = nullptr;
    std::vector<int32_t> spelled;
    size_t dropped = 0;
    bool chats = false, more = false;
  };

  Status checked(ChatMessages* messages) const;
  // Makes the prompt of the turn's messages, without the oldest ones that do not fit; `said`: tokens behind it already.
  Status fit(Turn* turn, size_t said);
  // Finds the form of its calls, where it has tools.
  Status find_calls(Turn* turn) const;
  // Makes the form of its reply.
  Status form(Turn* turn) { return forms_.begin(turn->request.form, turn->before, &turn->grammar); }
  Status start(int64_t room, Engine& engine, const Speculation* speculation);
  void keep();
  void tell_calls(edgedec_result* result);

  const Tokenizer& tokenizer_;
  const Manifest& manifest_;
  const ChatTemplate* chat_;
  Conversation conversation_;
  Forms forms_;
  Clock& clock_;
  const Flag& stop_;
  Turn turn_;
  std::optional<Reply> reply_;
  Engine* engine_ = nullptr;
  const Speculation* speculation_ = nullptr;
  Tally before_{0};
  int64_t passes_ = 0;

  std::optional<Unfinished> unfinished_;  // the latest reply, where it was cut
  ChatMessages messages_;  // of the latest reply, with it
  DrawParams params_;
  ReplyFigures figures_;
};

}  // namespace edgedec::engine
