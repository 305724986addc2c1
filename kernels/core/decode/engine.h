// The decoding loop: draft, run a pass, verify, commit.
//
// The token sequence is the one truth. The cache may lag behind; the next pass feeds what it lacks. Whatever happens in
// between, the cache holds a prefix of the sequence.
//
// A round is plan, pass, settle: `generate` computes the pass in between, and where somebody else does (engine/web) the
// same two functions stand around it. A host with a cache of its own (api/engine.cc) keeps in it what was accepted between
// verify and learn, the halves of settle.
#pragma once

#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "core/params.h"
#include "core/decode/passes.h"
#include "core/decode/records.h"
#include "core/decode/reply_plan.h"
#include "core/decode/speculation.h"
#include "core/memory/ledger.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// A request as the engine takes it.
struct GenerateRequest {
  Span<const int32_t> prompt;
  DrawParams params;  // checked by check_params
  int64_t max_tokens = 0;
  std::vector<int32_t> stop_ids;
  size_t said = 0;              // tokens at the end of the prompt that the reply said already
  std::optional<double> bound;  // mirostat's state behind them
  bool drafts = true;  // whether drafters are queried
  Grammar* grammar = nullptr;      // stands where the reply begins
  AnswerFilter* filter = nullptr;  // leaves out drafted tokens that the grammar does not permit
};

// The time of a pass, and what it read of experts on a disk; no seconds: it was not timed.
struct PassTime {
  std::optional<double> seconds;
  std::optional<PassReads> reads;
};

// Generates tokens with one model. All that is handed in lives longer.
class Engine {
 public:
  struct Setting {
    Speculation* speculation = nullptr;
    PassObserver* observer = nullptr;
    Clock* clock = nullptr;   // times passes, for drafts and for the observer
    Ledger* ledger = nullptr; // has a share "rows" for draws
  };

  Engine(Forward& forward, const Setting& setting);

  // Prompt and reply so far.
  Span<const int32_t> committed() const { return committed_; }
  const Work& work() const { return passes_.work(); }
  Forward& forward() { return forward_; }

  // Counts the tokens of a prompt that the cache holds. The last one is always fed, for its logits.
  int64_t reusable(Span<const int32_t> prompt) const;
  // Continues a prompt; `listener` hears each committed token, the last one with its finish, and may end the reply after
  // any of them. Tokens that the prompt shares with the committed ones are not computed again.
  Status generate(const GenerateRequest& request, ReplyListener& listener);

  // The parts of generate(): begin, run, end. In place of run(): plan and settle in turn until there is nothing to plan.
  Status begin(const GenerateRequest& request);
  // The same where the host checked the request, and cache and drafters have begun; `end`: most tokens of the sequence.
  void start(const GenerateRequest& request, int64_t end);
  Status run(ReplyListener& listener);
  // The pass that the reply needs next; null: it is over. Valid until settle().
  const WantedPass* plan();
  // The planned pass is in the cache, and its results in `found`: verifies and commits.
  Status settle(double seconds, ReplyListener& listener);
  // The halves of settle() for a pass that ends with a draft or the last committed token: the verdict on `head`, which stays
  // until the other half notes it and its tokens.
  Status verify(const HeadView& head);
  const Verdict& verdict() const { return verdict_; }
  void learn(const PassTime& time);
  bool commit(ReplyListener* listener);
  // The draft of the planned pass, and behind learn() that of the latest one.
  const DraftTree& planned() const { return *tree_; }
  const DraftTree& drafted() const { return drafted_; }
  // Whether the planned pass is over a piece of what the cache lacks, of which no rows are needed; the committed tokens of it.
  bool piece() const { return piece_; }
  size_t waiting() const { return waiting_; }
  // The reply under way, and the position of its next token.
  ReplyPlan& reply() { return *reply_; }
  int64_t position() const { return static_cast<int64_t>(committed_.size()); }
  // Ends a reply that is over, or that failed with `done`.
  Status end(const Status& done);

  // Forgets the sequence and empties the cache, also after a pass that failed.
  Status reset();
  // Takes `tokens` for committed: somebody else fed them to the cache.
  Status adopt(Span<const int32_t> tokens);

 private:
  Status check(const GenerateRequest& request) const;
  const WantedPass* plan_piece(Span<const int32_t> waiting);
  const WantedPass* plan_round(Span<const int32_t> waiting);
  void settle_piece(double seconds, ReplyListener& listener);
  Status settle_round(double seconds, ReplyListener& listener);
  Status settle_cache();
  HiddenReader* hidden_reader() const;
  void want_hidden(Rows* rows);
  void read_hidden(int64_t start, size_t tokens, Span<const float> rows);
  Span<const float> kept_states();
  DraftTree certain(int64_t room);

  Forward& forward_;
  Setting setting_;
  SequencePasses passes_;
  std::vector<int32_t> committed_;
  HeadRows head_, unread_;
  HeadView answered_;

  // The reply under way.
  std::optional<ReplyPlan> reply_;
  bool over_ = true, reads_prompt_ = false, drafts_ = true;
  AnswerFilter* filter_ = nullptr;
  // Its planned pass: over a piece of what the cache lacks, or over the last of it and a draft.
  bool piece_ = false;
  size_t waiting_ = 0;  // committed tokens of the pass
  const DraftTree* tree_ = nullptr;
  HiddenReader* hidden_ = nullptr;
  std::vector<int> taps_;  // layers whose outputs it returns
  Verdict verdict_;
  std::vector<int> kept_;
  DraftTree drafted_;
  std::vector<int32_t> forced_;
};

// Counts the tokens that two sequences begin with alike.
size_t common_prefix(Span<const int32_t> first, Span<const int32_t> second);

}  // namespace edgedec::engine
