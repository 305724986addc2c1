// Functions that tests of control/ call: its parts, and a whole run in made-up time, which is the same on every machine.
#include <memory>
#include <utility>
#include <vector>

#include "common/capi.h"
#include "core/control/batch_costs.h"
#include "core/control/energy_costs.h"
#include "core/control/queries.h"
#include "core/control/streamed_costs.h"
#include "core/decode/speculation.h"

using namespace edgedec::engine;

namespace {

DraftTree tree_of(int count, const int32_t* tokens, const int32_t* parents, const double* probs, const int32_t* sources) {
  DraftTree tree;
  for (int at = 0; at < count; ++at) tree.add(tokens[at], parents[at], probs[at], sources[at]);
  return tree;
}

// A level check that notes the ratios it told and the scales that rounds were settled with.
struct WatchedCheck final : LevelListener {
  explicit WatchedCheck(Costs& costs) : check(costs, *this) {}
  void rescale(double ratio) override { ratios.push_back(ratio); }
  void settle(const Settlement&, double scale) override { scales.push_back(scale); }

  LevelCheck check;
  std::vector<double> ratios, scales;
};

// Numbers that are drawn alike everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(2 * seed + 1) {}
  uint64_t below(uint64_t most) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % most;
  }
  double share() { return static_cast<double>(below(1u << 20)) / (1u << 20); }
  // The product of two shares.
  double shares() {
    const double first = share();
    return first * share();
  }

 private:
  uint64_t state_;
};

struct PlayedTime final : Clock {
  double now() override { return seconds; }
  double seconds = 0.0;
};

// Drafts around the tokens that will come.
class PlayedDrafter final : public Drafter {
 public:
  PlayedDrafter(uint64_t seed, PlayedTime& time, const std::vector<int32_t>& text)
      : dice_(seed), time_(time), text_(text), right_(dice_.share()), call_(0.3 * dice_.shares()),
        branches_(1 + static_cast<int>(dice_.below(3))), peeks_(dice_.below(4) == 0) {
    pretrained = dice_.below(3) == 0;
  }

  const char* name() const override { return "played"; }
  size_t nbytes() const override { return 0; }
  bool peeks() const override { return peeks_; }
  int peeked() const override { return peeked_; }
  Status begin(Span<const int32_t> tokens, size_t) override {
    at_ = tokens.size();
    return {};
  }
  Status commit(Span<const int32_t> tokens) override {
    at_ += tokens.size();
    return {};
  }
  Status propose(int limit, double floor, Source self, DraftTree* tree) override {
    double reach = 1.0;
    int above = kRoot;
    for (int depth = 0; depth < limit && at_ + static_cast<size_t>(depth) < text_.size(); ++depth) {
      const double prob = 0.05 + 0.95 * dice_.share();
      reach *= prob;
      if (reach < floor) break;
      const int first = static_cast<int>(tree->size());
      for (int branch = 0; branch < branches_ && static_cast<int>(tree->size()) < limit; ++branch) {
        const int32_t next = text_[at_ + static_cast<size_t>(depth)];
        const bool right = !branch && dice_.share() < right_;
        tree->add(right ? next : static_cast<int32_t>(dice_.below(9)), above, prob, self);
      }
      above = first;
    }
    peeked_ = peeks_ ? static_cast<int>(tree->size()) : 0;
    time_.seconds += call_ * static_cast<double>(1 + tree->size());
    return {};
  }

 private:
  Dice dice_;
  PlayedTime& time_;
  const std::vector<int32_t>& text_;
  double right_, call_;
  int branches_;
  bool peeks_;
  int peeked_ = 0;
  size_t at_ = 0;
};

// Costs of one kind: a curve, with waits, of a batch, or in joules.
struct PlayedCosts {
  explicit PlayedCosts(uint64_t kind, bool old) {
    (void)CostCurve::make({{1, 1.0}, {2, 1.05}, {4, 1.2}, {8, 1.7}, {16, 2.6}}, old, &curve).ok();
    if (kind == 1) streamed = std::make_unique<StreamedCosts>(curve, Experts{32, 4, 0, 4, 1 << 20}, 0.3);
    if (kind == 2) batch = std::make_unique<BatchCosts>(curve, 2);
    if (kind == 3) energy = std::make_unique<EnergyCosts>(curve, Points{{1, 3.0}, {8, 5.0}});
  }
  Costs* used() {
    if (batch) return &batch->view(0);
    return streamed ? static_cast<Costs*>(streamed.get()) : energy ? static_cast<Costs*>(energy.get()) : &curve;
  }

  CostCurve curve;
  std::unique_ptr<StreamedCosts> streamed;
  std::unique_ptr<BatchCosts> batch;
  std::unique_ptr<EnergyCosts> energy;
};

Verdict verdict_of(const DraftTree& tree, const int32_t* text) {
  Verdict verdict;
  for (int node = kRoot; node != kNone;) {
    const int32_t token = text[verdict.tokens.size()];
    verdict.tokens.push_back(token);
    node = tree.child(node, token);
    if (node != kNone) verdict.path.push_back(node);
  }
  return verdict;
}

}  // namespace

// feed_plan[0]: nodes, [1]: tokens that are expected, [2]: gain. Where `spare` is below 0, any cost will do.
EDGEDEC_EXPORT void edgedec_probe_feed_plan(const Costs* costs, int count, const int32_t* parents, const double* probs,
                                            double rate, double verify_overhead, double spare, double* plan) {
  const std::vector<int32_t> same(static_cast<size_t>(count));
  FeedTerms terms;
  terms.rate = rate;
  terms.verify_overhead = verify_overhead;
  if (spare >= 0.0) terms.spare = spare;
  const FeedPlan made = Planner().plan(tree_of(count, same.data(), parents, probs, same.data()), *costs, terms);
  plan[0] = made.nodes;
  plan[1] = made.accepted;
  plan[2] = made.gain;
}

EDGEDEC_EXPORT double edgedec_probe_least_reach(const Costs* costs, int limit) { return least_reach(*costs, limit); }

EDGEDEC_EXPORT Acceptance* edgedec_probe_acceptance(int drafters) {
  auto* made = new Acceptance;
  for (int at = 0; at < drafters; ++at) made->add_drafter();
  return made;
}
EDGEDEC_EXPORT void edgedec_probe_acceptance_observe(Acceptance* it, int count, const int32_t* tokens,
                                                     const int32_t* parents, const double* probs, const int32_t* sources,
                                                     int committed, const int32_t* following) {
  it->observe(tree_of(count, tokens, parents, probs, sources), {following, static_cast<size_t>(committed)});
}
EDGEDEC_EXPORT double edgedec_probe_acceptance_calibrate(const Acceptance* it, int source, double prob) {
  return it->calibrate(source, prob);
}

EDGEDEC_EXPORT Credit* edgedec_probe_credit() { return new Credit; }
// Returns the balance.
EDGEDEC_EXPORT double edgedec_probe_credit_book(Credit* it, int tokens, double cost) {
  it->book(tokens, cost);
  return it->passes();
}

// line[0]: slope, [1]: mean of calls of these units and seconds.
EDGEDEC_EXPORT void edgedec_probe_line(int count, const double* units, const double* seconds, double* line) {
  Line made;
  for (int at = 0; at < count; ++at) made.observe(units[at], seconds[at]);
  line[0] = made.slope();
  line[1] = made.mean();
}

// Measurements with one drafter, and the queries that they allow.
struct ProbedControl {
  explicit ProbedControl(Costs& costs)
      : measured(costs, Span<const DrafterTraits>(&traits, 1)), queries(measured, 15) {}
  DrafterTraits traits = {false, true};
  Measurements measured;
  Queries queries;
};
EDGEDEC_EXPORT ProbedControl* edgedec_probe_control(Costs* costs) { return new ProbedControl(*costs); }
EDGEDEC_EXPORT double edgedec_probe_control_charged(ProbedControl* it, double seconds, double usual) {
  return it->measured.charged(seconds, usual);
}
EDGEDEC_EXPORT double edgedec_probe_control_verified(ProbedControl* it, int drafted, double seconds) {
  it->measured.verified(static_cast<size_t>(drafted), seconds);
  return it->measured.verify_overhead.slope();
}
EDGEDEC_EXPORT double edgedec_probe_control_credit(ProbedControl* it, int tokens, double cost) {
  it->measured.credit.book(static_cast<size_t>(tokens), cost);
  return it->measured.credit.passes();
}
// Nodes to feed of a chain of so many tokens of this probability.
EDGEDEC_EXPORT int edgedec_probe_control_plan(ProbedControl* it, int count, double prob) {
  DraftTree chain;
  for (int at = 0; at < count; ++at) chain.add(at, at - 1, prob, 0);
  return it->queries.plan(chain).nodes;
}

EDGEDEC_EXPORT WatchedCheck* edgedec_probe_level_check(Costs* costs) { return new WatchedCheck(*costs); }
EDGEDEC_EXPORT void edgedec_probe_level_check_saw(WatchedCheck* it, double seconds, double usual) {
  it->check.saw(seconds, usual);
}
EDGEDEC_EXPORT void edgedec_probe_level_check_saw_first_call(WatchedCheck* it) { it->check.saw_first_call(); }
EDGEDEC_EXPORT void edgedec_probe_level_check_settle(WatchedCheck* it, int turn) { it->check.settle(turn, {}); }
EDGEDEC_EXPORT void edgedec_probe_level_check_plain(WatchedCheck* it, int turn, double seconds) {
  it->check.plain(turn, seconds);
}
// Ratios, or scales, so far: returns how many, and writes as many as there is room for.
EDGEDEC_EXPORT int edgedec_probe_level_check_told(const WatchedCheck* it, int scales, double* told, int room) {
  const std::vector<double>& all = scales ? it->scales : it->ratios;
  for (size_t at = 0; at < all.size() && static_cast<int>(at) < room; ++at) told[at] = all[at];
  return static_cast<int>(all.size());
}

EDGEDEC_EXPORT Reuse* edgedec_probe_reuse() { return new Reuse; }
EDGEDEC_EXPORT double edgedec_probe_reuse_expected(const Reuse* it, const Costs* costs, int tokens, int reused) {
  return it->expected(*costs, tokens, reused);
}
EDGEDEC_EXPORT double edgedec_probe_reuse_passing(Reuse* it, Costs* costs, int tokens, int reused, double seconds) {
  if (seconds < 0.0) return it->passing(*costs, tokens, reused, {});
  return it->passing(*costs, tokens, reused, seconds);
}

// Plays `rounds` rounds in made-up time. Returns how many numbers describe them; writes them where there is `room`.
EDGEDEC_EXPORT int64_t edgedec_probe_speculation(int64_t seed, int64_t rounds, double* numbers, size_t room) {
  Dice dice(static_cast<uint64_t>(seed));
  std::vector<int32_t> text;
  for (int64_t at = 0; at < 20 * rounds; ++at) text.push_back(static_cast<int32_t>(dice.below(9)));
  PlayedTime time;
  const bool old = dice.below(3) == 0;  // apart, for arguments are drawn in no order that is stated
  PlayedCosts costs(dice.below(4), old);
  Drafters drafters;
  for (uint64_t left = 1 + dice.below(3); left; --left)
    drafters.push_back(std::make_unique<PlayedDrafter>(dice.below(1000), time, text));
  Speculation::Setting setting;
  setting.costs = dice.below(6) ? costs.used() : nullptr;
  setting.clock = &time;
  Speculation speculation(std::move(drafters), setting);
  std::vector<double> all;
  const auto put = [&](auto... values) { (all.push_back(static_cast<double>(values)), ...); };
  const HeadRows no_rows;
  size_t at = 0;
  speculation.begin({}, 0, {}, nullptr);
  for (int64_t round = 0; round < rounds; ++round) {
    if (dice.below(40) == 0) speculation.begin({text.data(), at}, at, {}, nullptr);
    DraftTree certain;
    if (dice.below(8) == 0) certain.add(text[at], kRoot, 1.0, speculation.certain());
    const DraftTree fed = speculation.draft(static_cast<int>(dice.below(16)), certain);
    for (size_t node = 0; node < fed.size(); ++node)
      put(fed.tokens[node], fed.parents[node], fed.probs[node], fed.sources[node]);
    const int tokens = 1 + static_cast<int>(fed.size());
    const double took = costs.curve.seconds(tokens) * (0.8 + 0.4 * dice.share());
    const PassReads reads = {static_cast<double>(dice.below(16)), 0.1 * took};
    time.seconds += took;
    const std::pair<int, int> own[] = {{0, tokens}, {1, 1 + static_cast<int>(dice.below(3))}};
    if (costs.batch) costs.batch->passed({own, 1 + static_cast<size_t>(dice.below(2))}, took, nullptr);
    const Verdict verdict = verdict_of(fed, text.data() + at);
    at += verdict.tokens.size();
    speculation.settle(no_rows, verdict, took, true, costs.streamed ? &reads : nullptr);
    put(costs.used()->plain(), costs.used()->least_slope(5));
  }
  speculation.end();
  const Tally& tally = speculation.tally();
  put(tally.rounds, tally.committed, tally.drafted, tally.accepted, tally.draft_s, tally.predicted_s());
  if (all.size() <= room) std::copy(all.begin(), all.end(), numbers);
  return static_cast<int64_t>(all.size());
}
