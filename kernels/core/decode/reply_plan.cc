#include "core/decode/reply_plan.h"

#include <algorithm>

#include "core/sampling/mirostat.h"
#include "core/verify/keyed.h"

namespace edgedec::engine {

ReplyPlan::ReplyPlan(const ModelSpec& spec, const DrawParams& params, DrawHistory history, int64_t end,
                     std::vector<int32_t> stop_ids, Grammar* grammar)
    : spec_(spec), params_(params), end_(end), stop_ids_(std::move(stop_ids)), grammar_(grammar),
      history_(std::move(history)) {}

int64_t ReplyPlan::drawing() const {
  return spec_.vocab_size * static_cast<int64_t>(drawing_bytes(params_, static_cast<size_t>(spec_.head_k), {false, grammar_ != nullptr}));
}

Rows ReplyPlan::rows(int last, size_t drafted) {
  indices_.clear();
  for (size_t at = 0; at <= drafted; ++at) indices_.push_back(last + static_cast<int>(at));
  Rows rows = Rows::chosen(indices_);
  rows.full = needs_logits(params_, static_cast<size_t>(spec_.head_k), {false, grammar_ != nullptr});
  rows.temperature = head_temperature(params_);
  return rows;
}

Status ReplyPlan::verdict(const DraftTree& tree, const HeadView& head, int64_t position, Verdict* verdict) {
  bounds_.assign(1, history_.bound());
  finished_ = false;
  const auto choose = [&](int node, Span<const int32_t> said, int32_t* token) {
    return grammar_ ? permitted(head, node, said, position, token) : draw_at(head, node, said, position, token);
  };
  EDGEDEC_TRY(keyed(tree, choose, verdict));
  if (verdict->tokens.empty()) return {Code::kBackend, "the model's head lists a token that is none", "verify the bundle"};
  verdict->until(stop_ids_, static_cast<size_t>(end_ - position));
  if (grammar_ && !stops(verdict->tokens.back())) return grammar_->follow(verdict->tokens, &finished_);
  return {};
}

// The token under a grammar.
Status ReplyPlan::permitted(const HeadView& head, int node, Span<const int32_t> said, int64_t position, int32_t* token) {
  bool finished = false;
  EDGEDEC_TRY(grammar_->follow(said, &finished));
  *token = kNoToken;
  if (finished && !said.empty()) return {};
  if (grammar_->forced(token, 1) > 0) {
    bounds_.push_back(bounds_.back());
    return {};
  }
  return draw_at(head, node, said, position, token);
}

Status ReplyPlan::draw_at(const HeadView& head, int node, Span<const int32_t> said, int64_t position, int32_t* token) {
  const DrawHistory history = history_.after(said, bounds_.back());
  const auto row = static_cast<size_t>(node + 1);
  const int64_t at = position + static_cast<int64_t>(said.size());
  EDGEDEC_TRY(draw(head, row, params_, at, history, grammar_, &scratch_, token));
  if (!history_.bound()) return {};
  double bound;
  EDGEDEC_TRY(bound_after(head, row, params_, *token, history, grammar_, &scratch_, &bound));
  bounds_.push_back(bound);
  return {};
}

Step ReplyPlan::step(const Verdict& verdict, const DraftTree& tree, int64_t position, size_t at) const {
  Step step;
  step.token = verdict.tokens[at];
  step.position = position + static_cast<int64_t>(at);
  if (stops(step.token) || (finished_ && at + 1 == verdict.tokens.size())) step.finish = Finish::kStop;
  else if (step.position + 1 == end_) step.finish = Finish::kLength;
  if (at < verdict.path.size()) step.source = tree.sources[static_cast<size_t>(verdict.path[at])];
  step.bound = bound(at);
  return step;
}

void ReplyPlan::commit(const Step& step) { history_.add(step.token, step.bound); }

void ReplyPlan::shrink(size_t bytes) {
  if (scratch_.bytes() > bytes) scratch_ = DrawScratch();
}

bool ReplyPlan::stops(int32_t token) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
}

}  // namespace edgedec::engine
