#include "core/decode/engine.h"

#include <algorithm>
#include <utility>

#include "core/base/format.h"

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
  EDGEDEC_TRY(begin(request));
  return end(run(listener));
}

Status Engine::run(ReplyListener& listener) {
  while (plan()) {
    double seconds;
    EDGEDEC_TRY(passes_.run(&seconds));
    EDGEDEC_TRY(settle(seconds, listener));
  }
  return {};
}

Status Engine::begin(const GenerateRequest& request) {
  EDGEDEC_TRY(check(request));
  const int64_t found = reusable(request.prompt);
  const bool noted = forward_.most_undone() != 0;  // states note where a reply begins
  if (found != forward_.length() || noted) EDGEDEC_TRY(forward_.rewind(found));
  if (setting_.speculation) {
    const size_t kept = common_prefix(committed_, request.prompt);
    setting_.speculation->begin(request.prompt, kept, request.stop_ids, &request.params);
  }
  committed_.reserve(static_cast<size_t>(forward_.capacity()));
  const auto length = static_cast<int64_t>(request.prompt.size());
  const int64_t room = std::min(request.max_tokens, forward_.capacity() - length);
  start(request, length + room);
  reply_->reserve(static_cast<size_t>(room));
  return {};
}

void Engine::start(const GenerateRequest& request, int64_t end) {
  committed_.assign(request.prompt.begin(), request.prompt.end());
  DrawHistory history(request.params, committed_, request.said, request.bound);
  reply_.emplace(forward_.spec(), request.params, std::move(history), end, request.stop_ids, request.grammar);
  over_ = false;
  reads_prompt_ = true;
  drafts_ = request.drafts;
  filter_ = request.filter;
}

Status Engine::end(const Status& done) {
  over_ = true;
  reply_.reset();
  forward_.free_logits(&head_);
  const auto committed = static_cast<int64_t>(committed_.size());
  const Status cut = forward_.length() > committed ? forward_.rewind(committed) : Status();
  if (setting_.speculation) setting_.speculation->end();
  return done.ok() ? cut : done;
}

const WantedPass* Engine::plan() {
  if (over_) return nullptr;
  const Span<const int32_t> waiting = Span<const int32_t>(committed_).from(static_cast<size_t>(forward_.length()));
  hidden_ = hidden_reader();
  piece_ = static_cast<int64_t>(waiting.size()) > passes_.longest();
  return piece_ ? plan_piece(waiting) : plan_round(waiting);
}

// A pass over the first of the tokens that the cache lacks.
const WantedPass* Engine::plan_piece(Span<const int32_t> waiting) {
  Rows rows = Rows::chosen({});
  want_hidden(&rows);
  waiting_ = static_cast<size_t>(passes_.longest());
  tree_ = &kNoDraft;
  return &passes_.want(waiting.first(waiting_), kNoDraft, rows, &unread_);
}

// A pass over all tokens that the cache lacks, and a draft behind them.
const WantedPass* Engine::plan_round(Span<const int32_t> waiting) {
  waiting_ = waiting.size();
  const size_t last = waiting_ - 1;
  Speculation* speculation = setting_.speculation;
  tree_ = &kNoDraft;
  if (speculation) {
    const int64_t undone = forward_.most_undone(), most = undone ? std::min(undone, passes_.longest()) : passes_.longest();
    const int64_t room = std::min(reply_->end() - position(), most) - 1;
    const bool drafts = drafts_ && !last;
    tree_ = drafts ? &speculation->draft(static_cast<int>(room), certain(room), filter_) : &speculation->undrafted();
    if (drafts) tree_ = &speculation->lead(forward_.peeked().from(1));  // the pass goes on from there
  }
  Rows rows = reply_->rows(static_cast<int>(last), tree_->size());
  want_hidden(&rows);
  return &passes_.want(waiting, *tree_, rows, &head_);
}

// The tokens that follow for certain, as a draft.
DraftTree Engine::certain(int64_t room) {
  DraftTree tree;
  room = std::min<int64_t>(room, setting_.speculation->limit());
  if (!reply_->grammar() || room < 1) return tree;
  forced_.resize(static_cast<size_t>(room));
  const int64_t count = reply_->grammar()->forced(forced_.data(), room);
  for (int64_t at = 0; at < count; ++at)
    tree.add(forced_[static_cast<size_t>(at)], static_cast<int>(at) - 1, 1.0, setting_.speculation->certain());
  return tree;
}

Status Engine::settle(double seconds, ReplyListener& listener) {
  passes_.count();
  if (!piece_) return settle_round(seconds, listener);
  settle_piece(seconds, listener);
  return {};
}

void Engine::settle_piece(double seconds, ReplyListener& listener) {
  const auto fed = static_cast<int64_t>(waiting_);
  const int64_t start = forward_.length() - fed;
  read_hidden(start, waiting_, unread_.hidden);
  passes_.record({start, fed, 0, seconds, 0, nullptr, {}});
  over_ = !passes_.report(reads_prompt_ ? &listener : nullptr, committed_.size());
}

Status Engine::settle_round(double seconds, ReplyListener& listener) {
  if (!passes_.report(reads_prompt_ ? &listener : nullptr, committed_.size())) {
    over_ = true;
    return {};
  }
  reads_prompt_ = false;
  if (const Status settled = settle_cache(); !settled.ok()) {
    const Status cut = forward_.rewind(position());
    return cut.ok() ? settled : cut;
  }
  learn({seconds, forward_.reads() ? std::optional(*forward_.reads()) : std::nullopt});
  const int64_t start = position() - static_cast<int64_t>(waiting_);
  read_hidden(start, drafted_.empty() ? waiting_ : kept_.size(), kept_states());
  const auto drafted = static_cast<int64_t>(drafted_.size()), fed = static_cast<int64_t>(waiting_) + drafted;
  passes_.record({start, fed, static_cast<int64_t>(verdict_.tokens.size()), seconds, drafted, &drafted_, verdict_.path});
  over_ = commit(&listener);
  return {};
}

void Engine::learn(const PassTime& time) {
  if (tree_->empty()) drafted_.clear();
  else drafted_ = *tree_;  // settling may begin another round
  const bool timed = drafts_ && waiting_ == 1 && time.seconds;
  const PassReads* reads = time.reads ? &*time.reads : nullptr;
  if (setting_.speculation) setting_.speculation->settle(answered_, verdict_, time.seconds.value_or(0.0), timed, reads);
}

// The reader of hidden states; null where no drafter needs them or the model has none.
HiddenReader* Engine::hidden_reader() const {
  Speculation* speculation = setting_.speculation;
  return speculation && !forward_.taps().empty() && !speculation->taps().empty() ? speculation : nullptr;
}

// Asks the pass for what the reader needs now; a drafter that is dropped before the pass is read changes that.
void Engine::want_hidden(Rows* rows) {
  taps_.clear();
  if (hidden_) taps_.assign(hidden_->taps().begin(), hidden_->taps().end());
  rows->taps = taps_;
}

void Engine::read_hidden(int64_t start, size_t tokens, Span<const float> rows) {
  if (!taps_.empty()) hidden_->read({start, tokens, taps_, rows});
}

// The hidden states of the tokens that the cache kept of a pass, moved together.
Span<const float> Engine::kept_states() {
  std::vector<float>& all = head_.hidden;
  if (drafted_.empty()) return all;
  const size_t width = taps_.size() * static_cast<size_t>(forward_.spec().hidden_size);
  for (size_t at = 0; at < kept_.size(); ++at) {
    const float* from = all.data() + static_cast<size_t>(kept_[at]) * width;
    std::copy(from, from + width, all.data() + at * width);
  }
  return Span<const float>(all).first(kept_.size() * width);
}

// Verifies the draft, and keeps what was accepted of it in the cache.
Status Engine::settle_cache() {
  Lease drawing(setting_.ledger, "rows");
  if (setting_.ledger) EDGEDEC_TRY(drawing.grow(reply_->drawing()));
  EDGEDEC_TRY(verify(head_));
  if (tree_->empty()) return {};
  kept_.clear();
  for (size_t at = 0; at < waiting_; ++at) kept_.push_back(static_cast<int>(at));
  for (int node : verdict_.path) kept_.push_back(static_cast<int>(waiting_) + node);
  return forward_.keep_path(kept_);
}

Status Engine::verify(const HeadView& head) {
  answered_ = head;
  return reply_->verdict(*tree_, head, position(), &verdict_);
}

// Commits the verdict, token by token; whether the reply is over.
bool Engine::commit(ReplyListener* listener) {
  const int64_t first = position();
  for (size_t at = 0; at < verdict_.tokens.size(); ++at) {
    const Step step = reply_->step(verdict_, drafted_, first, at);
    committed_.push_back(step.token);
    reply_->commit(step);
    if ((listener && !listener->step(step)) || step.finish != Finish::kNone) return true;
  }
  return false;
}

}  // namespace edgedec::engine
