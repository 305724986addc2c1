// One reply: tokens from the engine, text to the caller, and the time taken. edgedec/session/reply.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/capi/form.h"
#include "core/base/status.h"
#include "core/decode/engine.h"
#include "core/decode/speculation.h"
#include "engine/edgedec.h"
#include "engine/text/call_reader.h"
#include "engine/text/text_stream.h"
#include "engine/text/thought_reader.h"

namespace edgedec::engine {

// Settings of a reply.
struct ReplyRequest {
  DrawParams params;
  int64_t max_tokens = 0;  // 0: as far as the context reaches
  std::vector<std::string> stops;
  bool drafts = true;
  ReplyForm form;
  std::vector<PlainValue> tools;  // whose calls are read apart
  edgedec_on_call on_call = nullptr;
  edgedec_on_token on_token = nullptr;
  edgedec_on_prompt on_prompt = nullptr;
  void* user = nullptr;
};

// The place where a reply begins: behind `prompt`, or further on, behind `tokens` of an earlier part that was cut. That was
// shown as `shown`, and `bound` is mirostat's state. `room`: most tokens that the context has for it, 0: all that are left.
// `tags`: those of the thinking part of a reply to a conversation, whose prompt is `text`; none: nothing is told apart.
// `grammar`: its form, which stands there too; null: it has none. `family`: the form of its calls of tools, whose control tokens
// are `spelled`; null: calls are text.
struct ReplyStart {
  Span<const int32_t> prompt, tokens;
  std::string_view shown;
  std::optional<double> bound;
  int64_t room = 0;
  std::optional<ThinkingTags> tags = {};
  std::string_view text = {};
  TokenGrammar* grammar = nullptr;
  const CallFamily* family = nullptr;
  Span<const int32_t> spelled = {};
};

class Reply final : public ReplyListener {
 public:
  // `stop` is watched: once it is set, the reply ends. Everything handed in lives longer.
  Reply(const Tokenizer& tokenizer, const ReplyRequest& request, Span<const int32_t> end_ids, const Speculation* speculation,
        const Flag& stop, Clock& clock);

  Status begin(Engine& engine, const ReplyStart& start);
  // Says what was held back. The passes are over.
  void end();

  edgedec_finish finish() const { return finish_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  // The tokens without the end token, behind those of the earlier part.
  std::vector<int32_t> text_tokens() const;
  // The whole text, with that of the earlier part.
  const std::string& text() const { return stream_.whole(); }
  // The text as it was shown, with that of the earlier part.
  const std::string& shown() const { return shown_; }
  // The whole reply with its calls read apart, where it has a family.
  WholeReply read() const { return read_whole(text(), prompt_, *tags_, *family_, request_.tools); }
  // Whether all tokens decode to the text: no stop string, no half character was cut.
  bool exact() const;
  // Mirostat's state behind the tokens so far.
  const std::optional<double>& bound() const { return bound_; }
  int64_t reused() const { return reused_; }
  // Why the form of the reply let it go no further.
  const Status& failure() const { return failure_; }
  double prefill_s() const { return tokens_.empty() ? 0.0 : first_ - started_; }
  double decode_s() const { return tokens_.empty() ? 0.0 : last_ - first_; }

  bool progress(int64_t done, int64_t total) override;
  bool step(const Step& step) override;

 private:
  bool ends(int32_t token) const;
  bool over(Finish finish);
  bool commit(int32_t token);
  bool goes_round() const;
  void say(int32_t token, const std::string& text, Source source);
  void tell(int32_t token, const ThinkingSplitter::Parts& parts, Source source);
  void show(int32_t token, const std::string& thought, const std::string& text, Source source);
  void read_calls();

  const Tokenizer& tokenizer_;
  const ReplyRequest& request_;
  Span<const int32_t> end_ids_;
  const Speculation* speculation_;
  const Flag& stop_;
  Clock& clock_;
  TextStream stream_;
  std::optional<ThoughtReader> thoughts_;
  std::optional<ThinkingTags> tags_;
  std::optional<CallReader> calls_;
  const CallFamily* family_ = nullptr;
  Span<const int32_t> spelled_;
  std::string_view prompt_;
  std::vector<int32_t> before_, tokens_;
  std::string shown_;
  std::optional<double> bound_;
  edgedec_finish finish_ = EDGEDEC_FINISH_INTERRUPTED;
  bool interrupted_ = false;
  int64_t reused_ = 0;
  TokenGrammar* grammar_ = nullptr;
  Status failure_;
  double started_ = 0.0, first_ = 0.0, last_ = 0.0;
};

}  // namespace edgedec::engine
