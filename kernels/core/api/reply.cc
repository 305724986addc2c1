#include <algorithm>
#include <memory>
#include <utility>

#include "core/api/marshal.h"
#include "core/decode/reply_plan.h"

using namespace edgedec::engine;

namespace {

// Lists of draws that a handle keeps from one call to the next; longer ones, of whole rows, are given back.
constexpr size_t kMostKeptBytes = 1 << 16;

class CalledGrammar final : public Grammar {
 public:
  explicit CalledGrammar(const edgedec_core_grammar& of) : of_(of) {}

  Status follow(Span<const int32_t> tokens, bool* finished) override {
    const int found = of_.follow(tokens.data(), static_cast<int64_t>(tokens.size()));
    *finished = found > 0;
    return found < 0 ? error() : Status();
  }
  int32_t forced() override {
    const int found = of_.forced();
    failed_ |= found < -1;
    return found;
  }
  bool permits(int32_t token) override { return of_.permits(token) != 0; }
  const uint8_t* bits() override { return of_.bits(); }

  // Whether a callback failed that has no other way to say so.
  Status error() const { return {Code::kBackend, "the grammar failed"}; }
  bool failed_ = false;

 private:
  const edgedec_core_grammar of_;
};

bool is_tree(const int32_t* parents, int64_t nodes) {
  for (int64_t node = 0; node < nodes; ++node)
    if (parents[node] < kRoot || parents[node] >= node) return false;
  return true;
}

}  // namespace

struct edgedec_core_reply {
  ModelSpec spec;
  std::unique_ptr<CalledGrammar> grammar;
  std::unique_ptr<ReplyPlan> plan;
  DraftTree tree;
  Verdict verdict;
  size_t most_bytes = 0;
};

edgedec_core_reply* edgedec_core_reply_new(const edgedec_core_params* params, int64_t vocabulary, int64_t head_k,
                                           const int32_t* tokens, int64_t count, int64_t said, const double* bound,
                                           int64_t end, const int32_t* stop_ids, int64_t stops,
                                           const edgedec_core_grammar* grammar) {
  DrawParams drawing;
  if (api::failed(api::read(*params, &drawing))) return nullptr;
  auto reply = std::make_unique<edgedec_core_reply>();
  reply->spec.vocab_size = vocabulary;
  reply->spec.head_k = head_k;
  if (grammar) reply->grammar = std::make_unique<CalledGrammar>(*grammar);
  std::optional<double> begun;
  if (bound) begun = *bound;
  const Span<const int32_t> ends = api::span(stop_ids, stops);
  reply->plan = std::make_unique<ReplyPlan>(
      reply->spec, drawing, DrawHistory(drawing, api::span(tokens, count), api::size(said), begun), end,
      std::vector<int32_t>(ends.begin(), ends.end()), reply->grammar.get());
  return reply.release();
}

void edgedec_core_reply_free(edgedec_core_reply* reply) { delete reply; }

int edgedec_core_reply_verify(edgedec_core_reply* reply, const edgedec_core_head* head, int64_t nodes,
                              const int32_t* tokens, const int32_t* parents, int64_t position, int32_t* tokens_out,
                              int32_t* path_out, double* bounds_out, int32_t* ends) {
  ReplyPlan& plan = *reply->plan;
  HeadView rows = api::view(*head);
  if (!rows.logits) rows.vocabulary = api::size(reply->spec.vocab_size);
  if (reply->grammar && rows.vocabulary != api::size(reply->spec.vocab_size))
    return api::failed({Code::kUsage, "rows of logits of another vocabulary than the grammar's"});
  if (rows.rows != api::size(nodes) + 1 || rows.k == 0)
    return api::failed({Code::kUsage, "a pass has one row for the last committed token and one for each drafted one"});
  if (position < 0 || position >= plan.end()) return api::failed({Code::kUsage, "the reply is over"});
  if (!is_tree(parents, nodes)) return api::failed({Code::kUsage, "a drafted token precedes its parent"});
  DraftTree& tree = reply->tree;
  tree.clear();
  for (int64_t node = 0; node < nodes; ++node) tree.add(tokens[node], parents[node], 1.0, kTarget);
  Verdict& verdict = reply->verdict;
  Status status = plan.verdict(tree, rows, position, &verdict);
  reply->most_bytes = std::max(reply->most_bytes, plan.nbytes());
  plan.shrink(kMostKeptBytes);
  const bool broken = reply->grammar && std::exchange(reply->grammar->failed_, false);
  if (status.ok() && broken) status = reply->grammar->error();
  if (!status.ok()) return api::failed(status);
  const size_t count = verdict.tokens.size();
  for (size_t at = 0; at < count; ++at) {
    tokens_out[at] = verdict.tokens[at];
    if (const std::optional<double> bound = plan.bound(at)) bounds_out[at] = *bound;
  }
  std::copy(verdict.path.begin(), verdict.path.end(), path_out);
  ends[0] = static_cast<int32_t>(verdict.path.size());
  ends[1] = static_cast<int32_t>(plan.step(verdict, tree, position, count - 1).finish);
  return static_cast<int>(count);
}

int64_t edgedec_core_reply_bytes(const edgedec_core_reply* reply) { return static_cast<int64_t>(reply->most_bytes); }

void edgedec_core_reply_commit(edgedec_core_reply* reply, int32_t token, double bound) {
  Step step;
  step.token = token;
  if (reply->plan->mirostat()) step.bound = bound;
  reply->plan->commit(step);
}
