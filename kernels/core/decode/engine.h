// The decoding loop: draft, run a pass, verify, commit. edgedec/decode/engine.py and cached_sequence.py, without eviction
// and grammars.
//
// The token sequence is the one truth. The cache may lag behind; the next pass feeds what it lacks. Whatever happens in
// between, the cache holds a prefix of the sequence.
//
// A round is plan, pass, settle: `generate` computes the pass in between, and where somebody else does (engine/web) the
// same two functions stand around it.
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
  Status run(ReplyListener& listener);
  // The pass that the reply needs next; null: it is over. Valid until settle().
  const WantedPass* plan();
  // The planned pass is in the cache, and its results in `found`: verifies and commits.
  Status settle(double seconds, ReplyListener& listener);
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
  Status settle_cache(int64_t position);
  HiddenReader* hidden_reader() const;
  void want_hidden(Rows* rows);
  void read_hidden(int64_t start, size_t tokens, Span<const float> rows);
  Span<const float> kept_states();
  bool commit(int64_t position, ReplyListener& listener);

  Forward& forward_;
  Setting setting_;
  SequencePasses passes_;
  std::vector<int32_t> committed_;
  HeadRows head_, unread_;

  // The reply under way.
  std::optional<ReplyPlan> reply_;
  bool over_ = true, reads_prompt_ = false, drafts_ = true;
  // Its planned pass: over a piece of what the cache lacks, or over the last of it and a draft.
  bool piece_ = false;
  size_t waiting_ = 0;  // committed tokens of the pass
  const DraftTree* tree_ = nullptr;
  HiddenReader* hidden_ = nullptr;
  std::vector<int> taps_;  // layers whose outputs it returns
  Verdict verdict_;
  std::vector<int> kept_;
  DraftTree drafted_;
};

// Counts the tokens that two sequences begin with alike.
size_t common_prefix(Span<const int32_t> first, Span<const int32_t> second);

}  // namespace edgedec::engine
