// C ABI of speculation, through handles. Drafters are tables of the core, or the host's own, which are called back.
//
// A call in which the host's code raised what is no drafter's failure returns kStopped: the host raises it again.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/capi.h"
#include "core/api/hosted_speculation.h"
#include "core/decode/table_drafter.h"

using namespace edgedec::engine;
using edgedec::engine::api::HostedSpeculation;
using edgedec::engine::api::kStopped;

namespace {

// Calls of the host, and its answers.
enum class Wanted : int { kBegin, kCommit, kPropose, kObserve, kPermit };
enum class Outcome : int { kDone, kFailed, kStopped };

// Traits of the host's drafters.
constexpr int kPeeks = 1, kEveryRound = 2, kObserves = 4;

// The arguments of a call of the host: what it drafts for, tokens or a tree, and head rows.
struct HostCall {
  int64_t limit;
  double floor;
  int64_t count;
  const int32_t* tokens;
  const int32_t* parents;
  const double* probs;
  const int32_t* sources;
  int64_t rows, columns;
  const float* values;
  const int32_t* ids;
  const float* logsumexp;
  const float* entropy;
  double temperature;
};

using HostFunction = int (*)(int wanted, int drafter);
using ClockFunction = double (*)();

// The host as the core sees it.
class Host final : public AnswerFilter, public CostKeeper {
 public:
  explicit Host(HostFunction function) : function_(function) {}

  HostCall call = {};
  // Its answer.
  DraftTree* tree = nullptr;
  Source source = 0;
  int peeked = 0;
  DraftWork work;
  std::vector<int> nodes;

  bool stopped = false, drifted = false;

  Status ask(Wanted wanted, int drafter) {
    if (!stopped) {
      const auto outcome = static_cast<Outcome>(function_(static_cast<int>(wanted), drafter));
      if (outcome == Outcome::kDone) return {};
      stopped = outcome == Outcome::kStopped;
    }
    return {Code::kBackend, "it failed"};
  }

  void show(const DraftTree& shown) {
    call.count = static_cast<int64_t>(shown.size());
    call.tokens = shown.tokens.data();
    call.parents = shown.parents.data();
    call.probs = shown.probs.data();
    call.sources = shown.sources.data();
  }

  void permitted(const DraftTree& shown, std::vector<int>* kept) override {
    show(shown);
    nodes.clear();
    if (ask(Wanted::kPermit, -1).ok()) *kept = nodes;
  }

  void keep(const Points&) override { drifted = true; }

 private:
  HostFunction function_;
};

// A drafter of the host's.
class HostDrafter final : public Drafter {
 public:
  HostDrafter(Host& host, int at, int traits) : host_(host), at_(at), traits_(traits) {}

  const char* name() const override { return ""; }
  size_t nbytes() const override { return 0; }
  bool peeks() const override { return traits_ & kPeeks; }
  int peeked() const override { return peeked_; }
  bool wants_every_round() const override { return traits_ & kEveryRound; }
  DraftWork work() const override { return work_; }
  bool interrupted() const override { return host_.stopped; }

  Status begin(Span<const int32_t>, size_t) override { return host_.ask(Wanted::kBegin, at_); }

  Status commit(Span<const int32_t> tokens) override {
    host_.call.count = static_cast<int64_t>(tokens.size());
    host_.call.tokens = tokens.data();
    return host_.ask(Wanted::kCommit, at_);
  }

  Status propose(int limit, double floor, Source self, DraftTree* tree) override {
    host_.call.limit = limit;
    host_.call.floor = floor;
    host_.tree = tree;
    host_.source = self;
    host_.peeked = 0;
    host_.work = {};
    const Status done = host_.ask(Wanted::kPropose, at_);
    host_.tree = nullptr;
    peeked_ = host_.peeked;
    work_.bytes_read += host_.work.bytes_read;
    work_.passes += host_.work.passes;
    work_.table_bytes += host_.work.table_bytes;
    return done;
  }

  Status observe(const DraftTree& tree, const HeadRows& rows) override {
    if (!(traits_ & kObserves)) return {};
    host_.show(tree);
    host_.call.rows = static_cast<int64_t>(rows.rows);
    host_.call.columns = static_cast<int64_t>(rows.k);
    host_.call.values = rows.values.data();
    host_.call.ids = rows.ids.data();
    host_.call.logsumexp = rows.logsumexp.data();
    host_.call.entropy = rows.entropy.data();
    host_.call.temperature = rows.temperature;
    return host_.ask(Wanted::kObserve, at_);
  }

 private:
  Host& host_;
  int at_, traits_, peeked_ = 0;
  DraftWork work_;
};

class HostClock final : public Clock {
 public:
  explicit HostClock(ClockFunction function) : function_(function) {}
  double now() override { return function_ ? function_() : 0.0; }

 private:
  ClockFunction function_;
};

template <class T>
Span<const T> span(const T* data, int64_t count) {
  return {data, static_cast<size_t>(std::max<int64_t>(count, 0))};
}

// Where a draft is written; each array has room for the most tokens of one.
struct DraftRoom {
  int32_t* tokens;
  int32_t* parents;
  double* probs;
  int32_t* sources;
};

// Parts of a speculation: `tables` has a drafter of the core, or null for one of the host's, which has `traits`.
// No `costs`: every draft of up to `limit` tokens is fed. No `clock`: nothing is timed.
struct SpeculationParts {
  int64_t drafters;
  edgedec::draft::Drafter* const* tables;
  const int32_t* traits;
  Costs* costs;
  int64_t limit;
  HostFunction host;
  ClockFunction clock;
  DraftRoom draft;
};

struct SpeculationHandle final : HostedSpeculation {
  Host host;
  HostClock clock;
  DraftRoom draft;
  Speculation speculation;
  HeadRows rows;
  Verdict verdict;
  DraftTree tree;

  explicit SpeculationHandle(const SpeculationParts& parts)
      : host(parts.host), clock(parts.clock), draft(parts.draft), speculation(drafters_of(parts), setting_of(parts)) {}

  Speculation& begin_call() override {
    host.stopped = false;
    return speculation;
  }
  bool stopped() const override { return host.stopped; }
  AnswerFilter& filter() override { return host; }
  int outcome(int done = 0) const { return host.stopped ? kStopped : done; }

  // Writes the round's draft, and returns its size.
  int write(const DraftTree& fed) {
    if (host.stopped) return kStopped;
    std::copy(fed.tokens.begin(), fed.tokens.end(), draft.tokens);
    std::copy(fed.parents.begin(), fed.parents.end(), draft.parents);
    std::copy(fed.probs.begin(), fed.probs.end(), draft.probs);
    std::copy(fed.sources.begin(), fed.sources.end(), draft.sources);
    return static_cast<int>(fed.size());
  }


 private:
  Drafters drafters_of(const SpeculationParts& parts) {
    Drafters all;
    for (int64_t at = 0; at < parts.drafters; ++at) {
      if (parts.tables[at]) all.push_back(std::make_unique<TableDrafter>(*parts.tables[at]));
      else all.push_back(std::make_unique<HostDrafter>(host, static_cast<int>(at), parts.traits[at]));
    }
    return all;
  }

  Speculation::Setting setting_of(const SpeculationParts& parts) {
    Speculation::Setting setting;
    setting.costs = parts.costs;
    setting.limit = static_cast<int>(parts.limit);
    setting.clock = &clock;
    setting.keeper = &host;
    return setting;
  }
};

}  // namespace

EDGEDEC_EXPORT SpeculationHandle* edgedec_core_speculation_new(const SpeculationParts* parts) {
  return new SpeculationHandle(*parts);
}
EDGEDEC_EXPORT void edgedec_core_speculation_destroy(SpeculationHandle* it) { delete it; }
// The arguments of calls of the host.
EDGEDEC_EXPORT const HostCall* edgedec_core_speculation_call(const SpeculationHandle* it) { return &it->host.call; }

EDGEDEC_EXPORT void edgedec_core_speculation_trust(SpeculationHandle* it, int drafter) {
  it->speculation.trust(static_cast<size_t>(drafter));
}
EDGEDEC_EXPORT void edgedec_core_speculation_drop(SpeculationHandle* it, int drafter) {
  it->speculation.drop(static_cast<size_t>(drafter));
}
EDGEDEC_EXPORT void edgedec_core_speculation_limit(SpeculationHandle* it, int tokens) { it->speculation.draft_at_most(tokens); }

EDGEDEC_EXPORT int edgedec_core_speculation_begin(SpeculationHandle* it, int64_t count, const int32_t* tokens, int64_t kept,
                                             int64_t stops, const int32_t* stop_ids) {
  it->begin_call().begin(span(tokens, count), static_cast<size_t>(kept), span(stop_ids, stops), nullptr);
  return it->outcome();
}

// Returns 1 where costs drifted that are to be kept.
EDGEDEC_EXPORT int edgedec_core_speculation_end(SpeculationHandle* it) {
  it->host.drifted = false;
  it->begin_call().end();
  return it->outcome(it->host.drifted);
}

EDGEDEC_EXPORT int edgedec_core_speculation_tell(SpeculationHandle* it) {
  it->begin_call().tell();
  return it->outcome();
}

// Begins a round. Returns how many tokens of a draft it wrote.
EDGEDEC_EXPORT int edgedec_core_speculation_draft(SpeculationHandle* it, int room) {
  return it->write(it->begin_call().draft(room));
}

EDGEDEC_EXPORT void edgedec_core_speculation_undrafted(SpeculationHandle* it) { it->speculation.undrafted(); }

// Whether the round's rows are of use.
EDGEDEC_EXPORT int edgedec_core_speculation_wants_rows(const SpeculationHandle* it) { return it->speculation.wants_rows(); }

// Notes the head's rows of the pass, for the next settle or note: `columns` logits and ids a row, best first.
EDGEDEC_EXPORT void edgedec_core_speculation_rows(SpeculationHandle* it, int64_t count, int64_t columns, const float* values,
                                             const int32_t* ids, const float* logsumexp, const float* entropy,
                                             double temperature) {
  HeadRows& rows = it->rows;
  const int64_t cells = count * columns;
  rows.rows = static_cast<size_t>(count);
  rows.k = static_cast<size_t>(columns);
  rows.values.assign(values, values + cells);
  rows.ids.assign(ids, ids + cells);
  rows.logsumexp.assign(logsumexp, logsumexp + count);
  rows.entropy.assign(entropy, entropy + count);
  rows.temperature = temperature;
}

// Ends the round: `path` are the accepted nodes, `tokens` were committed. `seconds` below 0: the pass was not timed;
// `missed` below 0: it read nothing from a disk.
EDGEDEC_EXPORT int edgedec_core_speculation_settle(SpeculationHandle* it, int64_t path_count, const int32_t* path, int64_t count,
                                              const int32_t* tokens, double seconds, double missed, double waited_s) {
  it->verdict.path.assign(path, path + path_count);
  it->verdict.tokens.assign(tokens, tokens + count);
  const PassReads reads = {missed, waited_s};
  const bool timed = seconds >= 0.0;
  it->begin_call().settle(it->rows, it->verdict, timed ? seconds : 0.0, timed, missed < 0.0 ? nullptr : &reads);
  return it->outcome();
}

// Notes a round without a draft of this speculation: the rows answered a chain of `drafted` tokens.
EDGEDEC_EXPORT int edgedec_core_speculation_note(SpeculationHandle* it, int64_t drafted, const int32_t* chain, int64_t count,
                                            const int32_t* tokens) {
  it->tree.clear();
  for (int at = 0; at < static_cast<int>(drafted); ++at) it->tree.add(chain[at], at - 1, 1.0, 0);
  const HeadView rows = it->rows;
  it->begin_call().note(&it->tree, &rows, span(tokens, count));
  return it->outcome();
}

EDGEDEC_EXPORT void edgedec_core_speculation_learned(SpeculationHandle* it, int drafter, double seconds) {
  it->speculation.learned(static_cast<size_t>(drafter), seconds);
}

// Answers kPropose: a draft, the tokens of the pass that it computed in part, and what the drafter's model did for it.
EDGEDEC_EXPORT void edgedec_core_speculation_answer(SpeculationHandle* it, int64_t count, const int32_t* tokens,
                                               const int32_t* parents, const double* probs, int peeked, int64_t bytes_read,
                                               int64_t passes, int64_t table_bytes) {
  Host& host = it->host;
  if (!host.tree) return;
  for (int64_t at = 0; at < count; ++at) host.tree->add(tokens[at], parents[at], probs[at], host.source);
  host.peeked = peeked;
  host.work = {bytes_read, passes, table_bytes};
}

// Answers kPermit: the nodes that stay.
EDGEDEC_EXPORT void edgedec_core_speculation_permit(SpeculationHandle* it, int64_t count, const int32_t* nodes) {
  it->host.nodes.assign(nodes, nodes + count);
}

// Judged tokens of a source, and those of them that were right, in turns by steps of their probability. Returns how many
// steps there are: 0 without costs.
EDGEDEC_EXPORT int edgedec_core_speculation_judged(SpeculationHandle* it, int source, int64_t* counts) {
  const auto judged = it->speculation.judged(source);
  for (const auto& step : judged) {
    *counts++ = step.tokens;
    *counts++ = step.right;
  }
  return static_cast<int>(judged.size());
}

// The tally as numbers. Returns how many there are; writes them where there is `room` for as many.
EDGEDEC_EXPORT int64_t edgedec_core_speculation_tally(const SpeculationHandle* it, double* numbers, int64_t room) {
  const Tally& tally = it->speculation.tally();
  std::vector<double> all;
  const auto put = [&](auto... values) { (all.push_back(static_cast<double>(values)), ...); };
  put(tally.rounds, tally.committed, tally.drafted, tally.accepted, tally.draft_s, tally.verify_s);
  put(tally.forecast.tokens, tally.forecast.passes_s, tally.forecast.plain_s);
  for (const Count& one : tally.by_source) put(one.drafted, one.accepted);
  for (const Effort& one : tally.by_drafter)
    put(one.queries, one.proposed, one.draft_s, one.learn_s, one.bytes_read, one.passes, one.table_bytes);
  for (const Count& one : tally.by_depth) put(one.drafted, one.accepted);
  const auto count = static_cast<int64_t>(all.size());
  if (count <= room) std::copy(all.begin(), all.end(), numbers);
  return count;
}
