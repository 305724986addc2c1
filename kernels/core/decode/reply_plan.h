// How one reply is drawn, verified and ended.
#pragma once

#include <optional>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "core/params.h"
#include "core/rows.h"
#include "core/tree.h"
#include "core/decode/grammar.h"
#include "core/decode/records.h"
#include "core/sampling/draw.h"
#include "core/sampling/history.h"
#include "core/sampling/needs.h"
#include "core/verify/verdict.h"

namespace edgedec::engine {

// The settings of one reply, and what its draws read of the tokens so far.
class ReplyPlan {
 public:
  // `end`: most tokens of the whole sequence. `history` has the tokens before the reply. `grammar` stands behind the
  // committed tokens whenever a verdict is asked for; null: there is none.
  ReplyPlan(const ModelSpec& spec, const DrawParams& params, DrawHistory history, int64_t end, std::vector<int32_t> stop_ids,
            Grammar* grammar = nullptr);

  int64_t end() const { return end_; }
  Grammar* grammar() const { return grammar_; }
  // Makes room for what `tokens` committed ones leave to be read.
  void reserve(size_t tokens) { history_.reserve(tokens); }
  // Bytes that drawing a token takes beside the head rows, at most.
  int64_t drawing() const;
  // The head rows to request: of the last committed token, at `last`, and of the `drafted` ones. Valid until the next call.
  Rows rows(int last, size_t drafted);
  // Verifies `tree`: the tokens to commit from `position` on, none behind the end. Row i + 1 of `head` answers node i, row
  // 0 the last committed token. Under a grammar, tokens that it forces are not drawn, and nothing follows the token that
  // finishes it.
  Status verdict(const DraftTree& tree, const HeadView& head, int64_t position, Verdict* verdict);
  // Step number `at` of those that commit `verdict`, the latest, the first of them at `position`.
  Step step(const Verdict& verdict, const DraftTree& tree, int64_t position, size_t at) const;
  bool mirostat() const { return history_.bound().has_value(); }
  // Mirostat's state behind token number `at` of the latest verdict.
  std::optional<double> bound(size_t at) const { return history_.bound() ? bounds_[at + 1] : std::nullopt; }
  // Notes a committed token.
  void commit(const Step& step);
  // Bytes that the lists of draws hold.
  size_t nbytes() const { return scratch_.bytes(); }
  // Gives back lists of draws that hold more than `bytes`.
  void shrink(size_t bytes);

 private:
  Status draw_at(const HeadView& head, int node, Span<const int32_t> said, int64_t position, int32_t* token);
  Status permitted(const HeadView& head, int node, Span<const int32_t> said, int64_t position, int32_t* token);
  bool stops(int32_t token) const;

  const ModelSpec& spec_;
  DrawParams params_;
  int64_t end_;
  std::vector<int32_t> stop_ids_;
  Grammar* grammar_;
  DrawHistory history_;
  DrawScratch scratch_;
  std::vector<int> indices_;
  // Mirostat's state before the latest verdict and after each of its tokens; none without it.
  std::vector<std::optional<double>> bounds_;
  bool finished_ = false;  // whether nothing may follow the latest verdict in the grammar
};

}  // namespace edgedec::engine
