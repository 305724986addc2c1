#include "engine/decode/engine.h"

#include <algorithm>

#include "engine/base/format.h"

namespace edgedec::engine {
namespace {

const DraftTree kNoDraft;

}  // namespace

size_t common_prefix(Span<const int32_t> first, Span<const int32_t> second) {
  const size_t most = std::min(first.size(), second.size());
  size_t at = 0;
  while (at < most && first[at] == second[at]) ++at;
  return at;
}

Engine::Engine(Forward& forward, const Setting& setting)
    : forward_(forward), setting_(setting), passes_(forward, setting.observer, setting.clock) {}

int64_t Engine::reusable(Span<const int32_t> prompt) const {
  const auto common = static_cast<int64_t>(common_prefix(committed_, prompt));
  const int64_t resident = std::min({common, forward_.length(), static_cast<int64_t>(prompt.size()) - 1});
  return forward_.reachable(std::max<int64_t>(resident, 0));
}

Status Engine::reset() {
  committed_.clear();
  return forward_.rewind(0);
}

Status Engine::adopt(Span<const int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != forward_.length())
    return {Code::kUsage, decimal(uint64_t{tokens.size()}) + " tokens for a cache that holds " + decimal(forward_.length())};
  committed_.assign(tokens.begin(), tokens.end());
  if (setting_.speculation) setting_.speculation->begin(committed_, 0, {}, nullptr);
  return {};
}

Status Engine::check(const GenerateRequest& request) const {
  const Span<const int32_t> prompt = request.prompt;
  const ModelSpec& spec = forward_.spec();
  if (prompt.empty()) return {Code::kUsage, "the prompt is empty", "there must be at least one token to continue"};
  if (request.max_tokens < 1)
    return {Code::kUsage, "cannot generate " + decimal(request.max_tokens) + " tokens", "ask for at least 1"};
  if (*std::min_element(prompt.begin(), prompt.end()) < 0 ||
      *std::max_element(prompt.begin(), prompt.end()) >= spec.vocab_size)
    return {Code::kUsage, "the prompt has a token outside the vocabulary of " + decimal(spec.vocab_size)};
  if (static_cast<int64_t>(prompt.size()) >= forward_.capacity())
    return {Code::kContextFull,
            "the prompt has " + decimal(uint64_t{prompt.size()}) + " tokens, and the context holds " +
                decimal(forward_.capacity()),
            "shorten it to at most " + decimal(forward_.capacity() - 1) + " or use a larger context"};
  const auto& bias = request.params.logit_bias;
  if (!bias.empty() && bias.back().first >= spec.vocab_size)
    return {Code::kUsage,
            "the logit bias names token " + decimal(bias.back().first) + ", and the vocabulary has " +
                decimal(spec.vocab_size),
            "leave out ids that the model does not have"};
  return {};
}

Status Engine::generate(const GenerateRequest& request, ReplyListener& listener) {
  EDGEDEC_TRY(check(request));
  const int64_t found = reusable(request.prompt);
  if (found != forward_.length()) EDGEDEC_TRY(forward_.rewind(found));
  if (setting_.speculation) {
    const size_t kept = common_prefix(committed_, request.prompt);
    setting_.speculation->begin(request.prompt, kept, request.stop_ids, &request.params);
  }
  committed_.reserve(static_cast<size_t>(forward_.capacity()));
  committed_.assign(request.prompt.begin(), request.prompt.end());
  const auto length = static_cast<int64_t>(committed_.size());
  const int64_t room = forward_.capacity() - length;
  ReplyPlan reply(forward_.spec(), request.params, committed_, length + std::min(request.max_tokens, room),
                  request.stop_ids);
  const Status done = run(reply, listener);
  forward_.free_logits(&head_);
  const auto committed = static_cast<int64_t>(committed_.size());
  const Status cut = forward_.length() > committed ? forward_.rewind(committed) : Status();
  if (setting_.speculation) setting_.speculation->end();
  return done.ok() ? cut : done;
}

Status Engine::run(ReplyPlan& reply, ReplyListener& listener) {
  bool over = false, reads_prompt = true;
  while (!over) {
    EDGEDEC_TRY(round(reply, listener, reads_prompt, &over));
    reads_prompt = false;
  }
  return {};
}

// Feeds the tokens that the cache lacks and a draft behind it, and commits what comes of it.
Status Engine::round(ReplyPlan& reply, ReplyListener& listener, bool reads_prompt, bool* over) {
  const auto position = static_cast<int64_t>(committed_.size());
  ReplyListener* reader = reads_prompt ? &listener : nullptr;
  HiddenReader* hidden = hidden_reader();
  EDGEDEC_TRY(passes_.catch_up(committed_, reader, hidden, over));
  if (*over) return {};
  const Span<const int32_t> waiting = Span<const int32_t>(committed_).from(static_cast<size_t>(forward_.length()));
  const size_t last = waiting.size() - 1;
  Speculation* speculation = setting_.speculation;
  const DraftTree* tree = &kNoDraft;
  if (speculation) {
    const int64_t room = std::min(reply.end() - position, passes_.longest()) - 1;
    tree = last ? &speculation->undrafted() : &speculation->draft(static_cast<int>(room));
    if (!last) tree = &speculation->lead(forward_.peeked().from(1));  // the pass goes on from there
  }
  double seconds;
  Rows rows = reply.rows(static_cast<int>(last), tree->size());
  rows.hidden = hidden;
  EDGEDEC_TRY(passes_.run(waiting, *tree, rows, &head_, &seconds));
  if (!passes_.report(reader, committed_.size())) {
    *over = true;
    return {};
  }
  if (const Status settled = settle_cache(reply, *tree, position, last); !settled.ok()) {
    const Status cut = forward_.rewind(position);
    return cut.ok() ? settled : cut;
  }
  if (!tree->empty()) drafted_ = *tree;  // settling may begin another round
  else drafted_.clear();
  if (speculation) speculation->settle(head_, verdict_, seconds, last == 0);
  if (hidden) hidden->read(position - static_cast<int64_t>(last) - 1, kept_states());
  const auto fed = static_cast<int64_t>(waiting.size() + drafted_.size());
  passes_.record({position - static_cast<int64_t>(last) - 1, fed, static_cast<int64_t>(verdict_.tokens.size()), seconds,
                  static_cast<int64_t>(drafted_.size()), &drafted_, verdict_.path});
  *over = commit(reply, drafted_, position, listener);
  return {};
}

// The reader of hidden states; null where no drafter needs them or the model has none.
HiddenReader* Engine::hidden_reader() const {
  Speculation* speculation = setting_.speculation;
  return speculation && forward_.hidden() && speculation->reads_hidden() ? speculation : nullptr;
}

// The hidden states of the tokens that the cache kept of a pass, moved together.
Span<const float> Engine::kept_states() {
  std::vector<float>& all = head_.hidden;
  if (drafted_.empty()) return all;
  const auto width = static_cast<size_t>(forward_.hidden());
  for (size_t at = 0; at < kept_.size(); ++at) {
    const float* from = all.data() + static_cast<size_t>(kept_[at]) * width;
    std::copy(from, from + width, all.data() + at * width);
  }
  return Span<const float>(all).first(kept_.size() * width);
}

// Verifies the draft, and keeps what was accepted of it in the cache.
Status Engine::settle_cache(ReplyPlan& reply, const DraftTree& tree, int64_t position, size_t last) {
  Lease drawing(setting_.ledger, "rows");
  if (setting_.ledger) EDGEDEC_TRY(drawing.grow(reply.drawing()));
  EDGEDEC_TRY(reply.verdict(tree, head_, position, &verdict_));
  if (tree.empty()) return {};
  kept_.clear();
  for (size_t at = 0; at <= last; ++at) kept_.push_back(static_cast<int>(at));
  for (int node : verdict_.path) kept_.push_back(static_cast<int>(last) + 1 + node);
  return forward_.keep_path(kept_);
}

// Commits the verdict, token by token; whether the reply is over.
bool Engine::commit(ReplyPlan& reply, const DraftTree& tree, int64_t position, ReplyListener& listener) {
  for (size_t at = 0; at < verdict_.tokens.size(); ++at) {
    const Step step = reply.step(verdict_, tree, position, at);
    committed_.push_back(step.token);
    reply.commit(step);
    if (!listener.step(step) || step.finish != Finish::kNone) return true;
  }
  return false;
}

}  // namespace edgedec::engine
