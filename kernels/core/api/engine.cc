// C ABI of the decoding loop, through handles: the host runs the passes, and its cache follows them.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/api/called_grammar.h"
#include "core/api/hosted_speculation.h"
#include "core/decode/engine.h"

using namespace edgedec::engine;
using edgedec::engine::api::CalledGrammar;
using edgedec::engine::api::HostedSpeculation;
using edgedec::engine::api::kStopped;

namespace {

// Lists of draws that a reply keeps from one round to the next; longer ones, of whole rows, are given back.
constexpr size_t kMostKeptBytes = 1 << 16;

// The host's model: where its cache stands. The host itself runs passes, and rewinds and keeps what the loop says.
class HostCache final : public Forward {
 public:
  HostCache(int64_t vocabulary, int64_t head_k, edgedec_core_peeked peeked) : called_(peeked) {
    spec_.vocab_size = vocabulary;
    spec_.head_k = head_k;
    if (called_) peeked_.resize(kLongestPass);
  }

  void stand(int64_t length, int64_t most, int64_t undone) {
    length_ = length;
    most_ = most;
    undone_ = undone;
  }

  const ModelSpec& spec() const override { return spec_; }
  int64_t max_pass() const override { return most_; }
  int64_t most_undone() const override { return undone_; }
  int64_t capacity() const override { return 0; }
  int64_t length() const override { return length_; }
  int64_t reachable(int64_t length) const override { return length; }
  Span<const int32_t> peeked() const override {
    if (!called_) return {};
    const int64_t count = called_(peeked_.data(), static_cast<int64_t>(peeked_.size()));
    return api::span<int32_t>(peeked_.data(), count);
  }

  Status extend(Span<const int32_t>, Span<const int>, const Rows&, HeadRows*) override { return its_own(); }
  Status rewind(int64_t) override { return its_own(); }
  Status keep_path(Span<const int>) override { return its_own(); }
  std::string cache_layout() const override { return {}; }
  int64_t cache_bytes(int64_t) const override { return 0; }
  Status write_cache(CacheSink&, int64_t) override { return its_own(); }
  Status read_cache(CacheSource&, int64_t) override { return its_own(); }

 private:
  static Status its_own() { return {Code::kUnsupported, "the host does this itself"}; }

  ModelSpec spec_;
  edgedec_core_peeked called_;
  int64_t length_ = 0, most_ = 0, undone_ = 0;
  mutable std::vector<int32_t> peeked_;
};

bool is_tree(const int32_t* parents, int64_t nodes) {
  for (int64_t node = 0; node < nodes; ++node)
    if (parents[node] < kRoot || parents[node] >= node) return false;
  return true;
}

}  // namespace

struct edgedec_core_engine {
  HostCache forward;
  HostedSpeculation* speculation;
  edgedec_core_round* round;
  std::unique_ptr<CalledGrammar> grammar;
  Engine engine;
  size_t most_bytes = 0;

  explicit edgedec_core_engine(const edgedec_core_engine_parts& parts)
      : forward(parts.vocabulary, parts.head_k, parts.peeked),
        speculation(static_cast<HostedSpeculation*>(parts.speculation)), round(parts.round),
        engine(forward, {speculation ? &speculation->begin_call() : nullptr, nullptr, nullptr, nullptr}) {}

  bool stopped() const { return speculation && speculation->stopped(); }

  // Whether the grammar failed in this call.
  Status failure() { return grammar ? grammar->failure() : Status(); }

  Status checked(const HeadView& head, int64_t nodes) const {
    if (grammar && head.vocabulary != api::size(forward.spec().vocab_size))
      return {Code::kUsage, "rows of logits of another vocabulary than the grammar's"};
    if (head.rows != api::size(nodes) + 1 || head.k == 0)
      return {Code::kUsage, "a pass has one row for the last committed token and one for each drafted one"};
    return {};
  }

  HeadView view(const edgedec_core_head& head) const {
    HeadView rows = api::view(head);
    if (!rows.logits) rows.vocabulary = api::size(forward.spec().vocab_size);
    return rows;
  }

  // The outcome of a verdict: writes it, and returns how many tokens it has.
  int verified(Status status, const Verdict& verdict, const DraftTree& tree, int64_t position) {
    ReplyPlan& reply = engine.reply();
    most_bytes = std::max(most_bytes, reply.nbytes());
    reply.shrink(kMostKeptBytes);
    if (const Status broken = failure(); status.ok()) status = broken;
    if (!status.ok()) return api::failed(status);
    const size_t count = verdict.tokens.size();
    for (size_t at = 0; at < count; ++at) {
      const Step step = reply.step(verdict, tree, position, at);
      round->said[at] = step.token;
      round->writers[at] = step.source;
      if (step.bound) round->bounds[at] = *step.bound;
      round->end = static_cast<int32_t>(step.finish);
    }
    std::copy(verdict.path.begin(), verdict.path.end(), round->path);
    round->accepted = static_cast<int32_t>(verdict.path.size());
    return static_cast<int>(count);
  }
};

edgedec_core_engine* edgedec_core_engine_new(const edgedec_core_engine_parts* parts) {
  return new edgedec_core_engine(*parts);
}

void edgedec_core_engine_free(edgedec_core_engine* it) { delete it; }

int edgedec_core_engine_begin(edgedec_core_engine* it, const edgedec_core_params* params, const int32_t* tokens,
                              int64_t count, int64_t said, const double* bound, int64_t end, const int32_t* stop_ids,
                              int64_t stops, const edgedec_core_grammar* grammar) {
  GenerateRequest request;
  if (const int failed = api::failed(api::read(*params, &request.params))) return failed;
  it->grammar = grammar ? std::make_unique<CalledGrammar>(*grammar) : nullptr;
  request.prompt = api::span(tokens, count);
  request.said = api::size(said);
  if (bound) request.bound = *bound;
  const Span<const int32_t> ends = api::span(stop_ids, stops);
  request.stop_ids.assign(ends.begin(), ends.end());
  request.grammar = it->grammar.get();
  if (grammar && it->speculation) request.filter = &it->speculation->filter();
  it->engine.start(request, end);
  return 0;
}

int edgedec_core_engine_plan(edgedec_core_engine* it, int64_t length, int64_t most, int64_t undone) {
  if (it->speculation) it->speculation->begin_call();
  it->forward.stand(length, most, undone);
  const WantedPass* pass = it->engine.plan();
  if (it->stopped()) return kStopped;
  if (const Status broken = it->failure(); !broken.ok()) return api::failed(broken);
  if (!pass) return 0;
  edgedec_core_round& round = *it->round;
  round.piece = it->engine.piece();
  round.waiting = static_cast<int32_t>(it->engine.waiting());
  std::copy(pass->tokens.begin(), pass->tokens.end(), round.tokens);
  std::copy(pass->parents.begin(), pass->parents.end(), round.parents);
  return static_cast<int>(pass->tokens.size());
}

int edgedec_core_engine_verify(edgedec_core_engine* it, const edgedec_core_head* head) {
  const HeadView rows = it->view(*head);
  const DraftTree& tree = it->engine.planned();
  Status status = it->checked(rows, static_cast<int64_t>(tree.size()));
  if (status.ok()) status = it->engine.verify(rows);
  return it->verified(std::move(status), it->engine.verdict(), tree, it->engine.position());
}

int edgedec_core_engine_settle(edgedec_core_engine* it, const edgedec_core_head* head, double seconds, double missed,
                               double waited_s) {
  const int said = head ? edgedec_core_engine_verify(it, head) : 0;
  if (said < 0) return said;
  if (it->speculation) it->speculation->begin_call();
  PassTime time;
  if (seconds >= 0.0) time.seconds = seconds;
  if (missed >= 0.0) time.reads = PassReads{missed, waited_s};
  it->engine.learn(time);
  if (it->stopped()) return kStopped;
  it->engine.commit(nullptr);
  return said;
}

int64_t edgedec_core_engine_draft(const edgedec_core_engine* it, double* probs, int32_t* sources) {
  const DraftTree& tree = it->engine.drafted();
  std::copy(tree.probs.begin(), tree.probs.end(), probs);
  std::copy(tree.sources.begin(), tree.sources.end(), sources);
  return static_cast<int64_t>(tree.size());
}

int edgedec_core_engine_verdict(edgedec_core_engine* it, const edgedec_core_head* head, int64_t nodes,
                                const int32_t* tokens, const int32_t* parents, int64_t position) {
  ReplyPlan& reply = it->engine.reply();
  const HeadView rows = it->view(*head);
  Status status = it->checked(rows, nodes);
  if (status.ok() && (position < 0 || position >= reply.end())) status = {Code::kUsage, "the reply is over"};
  if (status.ok() && !is_tree(parents, nodes)) status = {Code::kUsage, "a drafted token precedes its parent"};
  DraftTree tree;
  Verdict verdict;
  if (status.ok()) {
    for (int64_t node = 0; node < nodes; ++node) tree.add(tokens[node], parents[node], 1.0, kTarget);
    status = reply.verdict(tree, rows, position, &verdict);
  }
  return it->verified(std::move(status), verdict, tree, position);
}

void edgedec_core_engine_commit(edgedec_core_engine* it, int32_t token, double bound) {
  Step step;
  step.token = token;
  if (it->engine.reply().mirostat()) step.bound = bound;
  it->engine.reply().commit(step);
}

int64_t edgedec_core_engine_drawn_bytes(const edgedec_core_engine* it) { return static_cast<int64_t>(it->most_bytes); }

int64_t edgedec_core_longest_pass() { return kLongestPass; }
