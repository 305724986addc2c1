// Counts of drafted and accepted tokens, the time of drafting, and a prediction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/span.h"
#include "core/tree.h"

namespace edgedec::engine {

// Tokens drafted, and those of them that were right.
struct Count {
  int64_t drafted = 0, accepted = 0;

  void add(bool right) {
    ++drafted;
    accepted += right;
  }
};

// The work of one drafter: queries, tokens proposed, seconds, and bytes read.
struct Effort {
  int64_t queries = 0, proposed = 0;
  double draft_s = 0.0;
  double learn_s = 0.0;      // of reading committed tokens and lessons, between queries
  int64_t bytes_read = 0;    // weights and KV cache that passes of its model read
  int64_t passes = 0;        // of its model
  int64_t table_bytes = 0;   // embedding tables from which these passes looked up rows, once a pass

  double seconds() const { return draft_s + learn_s; }
};

// Rounds by the pass costs known before each: tokens committed, and seconds with and without drafts.
struct Forecast {
  int64_t tokens = 0;
  double passes_s = 0.0;
  double plain_s = 0.0;  // of plain decoding for as many tokens

  // Counts a round that committed `tokens`, whose pass takes `pass_s` seconds by its cost.
  void add(size_t committed, double pass_s, double plain_pass_s) {
    tokens += static_cast<int64_t>(committed);
    passes_s += pass_s;
    plain_s += static_cast<double>(committed) * plain_pass_s;
  }
};

// Counts of a whole session.
struct Tally {
  // Counts for as many drafters; certain drafts are one source more.
  explicit Tally(size_t drafters) : by_source(drafters + 1), by_drafter(drafters) {}

  int64_t rounds = 0;  // passes that committed a token, drafted for or not
  int64_t committed = 0, drafted = 0, accepted = 0;
  double draft_s = 0.0;   // of proposing, learning and planning, passes of draft models included
  double verify_s = 0.0;  // the passes of these rounds
  std::vector<Count> by_source;    // tokens fed, by drafter
  std::vector<Effort> by_drafter;  // whether their tokens were fed or not
  Forecast forecast;
  // Drafted: rounds that came to this depth with a token drafted there; accepted: of these, how often one of the
  // tokens there was right. So these rates are conditional; their running product is the chance to get so deep.
  std::vector<Count> by_depth;

  // Counts a round: the draft fed, its accepted nodes, tokens committed in all, seconds of the pass.
  void add(const DraftTree& fed, Span<const int> accepted_nodes, size_t committed_tokens, double seconds);
  // Seconds of the forecast's rounds: of their passes by known costs, and of all drafters' calls.
  double predicted_s() const;
  // Tokens per second that follow from pass costs, draft costs and acceptance, and the same beside plain decoding;
  // none without costs.
  std::optional<double> predicted_tokens_per_s() const;
  std::optional<double> predicted_speed_up() const;
};

}  // namespace edgedec::engine
