// The decoding loop: draft, run a pass, verify, commit. edgedec/decode/engine.py and cached_sequence.py, without eviction
// and grammars.
//
// The token sequence is the one truth. The cache may lag behind; the next pass feeds what it lacks. Whatever happens in
// between, the cache holds a prefix of the sequence.
#pragma once

#include <vector>

#include "engine/base/clock.h"
#include "engine/base/span.h"
#include "engine/base/status.h"
#include "engine/core/params.h"
#include "engine/decode/passes.h"
#include "engine/decode/records.h"
#include "engine/decode/reply_plan.h"
#include "engine/decode/speculation.h"
#include "engine/memory/ledger.h"
#include "engine/model/forward.h"

namespace edgedec::engine {

// A request as the engine takes it.
struct GenerateRequest {
  Span<const int32_t> prompt;
  DrawParams params;  // checked by check_params
  int64_t max_tokens = 0;
  std::vector<int32_t> stop_ids;
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
  // Forgets the sequence and empties the cache, also after a pass that failed.
  Status reset();
  // Takes `tokens` for committed: somebody else fed them to the cache.
  Status adopt(Span<const int32_t> tokens);

 private:
  Status check(const GenerateRequest& request) const;
  Status run(ReplyPlan& reply, ReplyListener& listener);
  Status round(ReplyPlan& reply, ReplyListener& listener, bool reads_prompt, bool* over);
  Status settle_cache(ReplyPlan& reply, const DraftTree& tree, int64_t position, size_t last);
  HiddenReader* hidden_reader() const;
  Span<const float> kept_states();
  bool commit(ReplyPlan& reply, const DraftTree& tree, int64_t position, ReplyListener& listener);

  Forward& forward_;
  Setting setting_;
  SequencePasses passes_;
  std::vector<int32_t> committed_;
  HeadRows head_;
  Verdict verdict_;
  std::vector<int> kept_;
  DraftTree drafted_;
};

// Counts the tokens that two sequences begin with alike.
size_t common_prefix(Span<const int32_t> first, Span<const int32_t> second);

}  // namespace edgedec::engine
