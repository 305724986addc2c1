// How one reply is drawn, verified and ended: edgedec/decode/reply_plan.py.
#pragma once

#include <optional>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "core/params.h"
#include "core/rows.h"
#include "core/tree.h"
#include "core/decode/records.h"
#include "core/sampling/draw.h"
#include "core/sampling/history.h"
#include "core/verify/verdict.h"

namespace edgedec::engine {

// The settings of one reply, and what its draws read of the tokens so far.
class ReplyPlan {
 public:
  // `end`: most tokens of the whole sequence. `history` has the tokens before the reply.
  ReplyPlan(const ModelSpec& spec, const DrawParams& params, DrawHistory history, int64_t end, std::vector<int32_t> stop_ids);

  int64_t end() const { return end_; }
  // Bytes that drawing a token takes beside the head rows, at most.
  int64_t drawing() const;
  // The head rows to request: of the last committed token, at `last`, and of the `drafted` ones. Valid until the next call.
  Rows rows(int last, size_t drafted);
  // Verifies `tree`: the tokens to commit from `position` on, none behind the end. Row i + 1 of `head` answers node i, row
  // 0 the last committed token.
  Status verdict(const DraftTree& tree, const HeadRows& head, int64_t position, Verdict* verdict);
  // Step number `at` of those that commit `verdict`, the first of them at `position`.
  Step step(const Verdict& verdict, const DraftTree& tree, int64_t position, size_t at) const;
  // Notes a committed token.
  void commit(const Step& step);

 private:
  Status draw_at(const HeadRows& head, int node, Span<const int32_t> said, int64_t position, int32_t* token);
  bool stops(int32_t token) const;

  const ModelSpec& spec_;
  DrawParams params_;
  int64_t end_;
  std::vector<int32_t> stop_ids_;
  DrawHistory history_;
  DrawScratch scratch_;
  std::vector<int> indices_;
  // Mirostat's state before the latest verdict and after each of its tokens; none without it.
  std::vector<std::optional<double>> bounds_;
};

}  // namespace edgedec::engine
