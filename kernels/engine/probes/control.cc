// A function that tests of control/ call: it replays what Python's control was told, and writes what this one makes of
// it. Script and record are numbers, so that both come through any call.
#include <vector>

#include "common/capi.h"
#include "core/control/controller.h"
#include "core/control/tally.h"
#include "core/control/uncontrolled.h"

using namespace edgedec::engine;

namespace {

enum class Event { kEnd, kBegin, kDrop, kRound, kDraft, kAnswer, kSettle, kTally, kForecast };

class Script {
 public:
  Script(const double* numbers, size_t count) : at_(numbers), end_(numbers + count) {}

  bool done() const { return at_ == end_; }
  double number() { return done() ? 0.0 : *at_++; }
  int whole() { return static_cast<int>(number()); }
  Event event() { return static_cast<Event>(whole()); }
  std::vector<int32_t> tokens() {
    std::vector<int32_t> all(static_cast<size_t>(whole()));
    for (int32_t& token : all) token = whole();
    return all;
  }

 private:
  const double *at_, *end_;
};

class Record {
 public:
  Record(double* numbers, size_t room) : numbers_(numbers), room_(room) {}

  template <class... Values>
  void write(Values... values) {
    (put(static_cast<double>(values)), ...);
  }
  void write(const DraftTree& tree) {
    write(tree.size());
    for (size_t at = 0; at < tree.size(); ++at) {
      write(tree.tokens[at], tree.parents[at], tree.probs[at], tree.sources[at]);
    }
  }
  // Numbers written; -1 where there was no room for all.
  int64_t size() const { return count_ <= room_ ? static_cast<int64_t>(count_) : -1; }

 private:
  void put(double value) {
    if (count_ < room_) numbers_[count_] = value;
    ++count_;
  }

  double* numbers_;
  size_t room_, count_ = 0;
};

void write_line(Record& record, const Line& line) {
  record.write(line.calls(), line.mean(), line.fixed(), line.slope());
}

void write_drafter(Record& record, const Measurements& known, Source source) {
  const auto& drafter = known.of(source);
  record.write(drafter.here);
  if (!drafter.here) return;
  const QueryRecord& queries = drafter.record;
  record.write(drafter.fresh, drafter.costly, queries.unknown(), queries.seconds());
  record.write(queries.gains().value(), queries.gains().hope(known.exploration.rounds()));
  write_line(record, queries.cost());
  for (int step = 0; step <= 10; ++step) record.write(known.acceptance.calibrate(source, step / 10.0));
}

void write_estimates(Record& record, const Measurements& known) {
  for (int tokens = 1; tokens <= known.costs.longest(); ++tokens) record.write(known.costs.seconds(tokens));
  for (const auto& point : known.costs.measured()) record.write(point.second);
  record.write(known.costs.least_slope(3), known.costs.level_is_old(), known.costs.drift(), known.due_plain(),
               known.rate(), known.credit.passes(), known.exploration.left(), known.exploration.rounds());
  write_line(record, known.verify_overhead);
  for (size_t at = 0; at < known.drafters.size(); ++at) write_drafter(record, known, static_cast<Source>(at));
}

void write_tally(Record& record, const Tally& tally) {
  record.write(tally.rounds, tally.committed, tally.drafted, tally.accepted, tally.verify_s);
  for (size_t at = 0; at < tally.by_drafter.size(); ++at) record.write(tally.by_source[at].drafted, tally.by_source[at].accepted);
  record.write(tally.by_depth.size());
  for (const Count& one : tally.by_depth) record.write(one.drafted, one.accepted);
  record.write(tally.predicted_tokens_per_s().value_or(-1.0), tally.predicted_speed_up().value_or(-1.0));
}

// Answers queries as the script does, and records them.
class ScriptedAsker final : public Asker {
 public:
  ScriptedAsker(Script& script, Record& record, Control& control)
      : script_(script), record_(record), control_(control) {}

  bool ask(const Query& query, DraftAnswer* answer) override {
    record_.write(query.source, query.limit, query.floor);
    Event event = script_.event();
    for (; event == Event::kDrop; event = script_.event()) control_.drop(script_.whole());
    if (event != Event::kAnswer || !script_.whole()) return false;
    answer->seconds = script_.number();
    answer->peeked = script_.whole();
    for (int left = script_.whole(); left > 0; --left) {
      const auto token = script_.whole(), parent = script_.whole();
      const double prob = script_.number();
      answer->tree.add(token, parent, prob, script_.whole());
    }
    return true;
  }

 private:
  Script& script_;
  Record& record_;
  Control& control_;
};

RoundTimes round_times(Script& script) {
  RoundTimes times;
  const bool measured = script.whole() != 0;
  const double passing = script.number();
  if (measured) times.passing = passing;
  times.drafting = script.number();
  times.verifying = script.number();
  return times;
}

void replay(Script& script, Record& record, Control& control, const Measurements* known, size_t drafters) {
  ScriptedAsker asker(script, record, control);
  Tally tally(drafters);
  Round* round = nullptr;
  DraftTree fed;
  while (!script.done()) {
    const Event event = script.event();
    if (event == Event::kBegin) {
      control.begin(script.tokens());
    } else if (event == Event::kDrop) {
      control.drop(script.whole());
    } else if (event == Event::kRound) {
      round = &control.round(script.whole());
      fed.clear();
      record.write(round->resting(), round->unprofitable());
    } else if (event == Event::kDraft && round) {
      fed = round->draft(asker, {});
      record.write(fed);
      record.write(round->pass_s());
    } else if (event == Event::kSettle && round) {
      const RoundTimes times = round_times(script);
      round->settle(script.tokens(), times);
      if (known) write_estimates(record, *known);
    } else if (event == Event::kTally) {
      const std::vector<int32_t> accepted = script.tokens();
      const auto committed = static_cast<size_t>(script.whole());
      tally.add(fed, std::vector<int>(accepted.begin(), accepted.end()), committed, script.number());
    } else if (event == Event::kForecast) {
      const auto committed = static_cast<size_t>(script.whole());
      const double pass_s = script.number();
      tally.forecast.add(committed, pass_s, script.number());
    } else {
      return;
    }
  }
  write_tally(record, tally);
}

}  // namespace

// Returns how many numbers it wrote to `record`, which has room for `room`; -1: too many, -2: no such costs.
EDGEDEC_EXPORT int64_t edgedec_probe_control(const double* numbers, size_t count, double* written, size_t room) {
  Script script(numbers, count);
  Record record(written, room);
  const bool controlled = script.whole() != 0;
  const int limit = script.whole();
  std::vector<DrafterTraits> drafters(static_cast<size_t>(script.whole()));
  for (DrafterTraits& one : drafters) {
    one.peeks = script.whole() != 0;
    one.pretrained = script.whole() != 0;
  }
  if (!controlled) {
    Uncontrolled control(drafters.size());
    replay(script, record, control, nullptr, drafters.size());
    return record.size();
  }
  const bool old = script.whole() != 0;
  Points points(static_cast<size_t>(script.whole()));
  for (auto& [tokens, seconds] : points) {
    tokens = script.whole();
    seconds = script.number();
  }
  CostCurve costs;
  if (!CostCurve::make(points, old, &costs).ok()) return -2;
  Controller control(costs, drafters, limit);
  replay(script, record, control, &control.measured(), drafters.size());
  return record.size();
}
