// The interface of one round of control. A round is used once, in this order: draft, settle.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/span.h"
#include "core/tree.h"

namespace edgedec::engine {

// Queries a drafter for at most `limit` tokens with paths at least as probable as `floor`.
struct Query {
  Source source = 0;
  int limit = 0;
  double floor = 0.0;
};

struct DraftAnswer {
  DraftTree tree;
  double seconds = 0.0;  // that the drafter took
  // Tokens that the pass need not compute from the beginning: the last committed one, then the drafted ones along the
  // first path of `tree`.
  int peeked = 0;
};

struct Asker {
  // Queries a drafter. Returns false when it failed and is gone. `answer` is empty at first.
  virtual bool ask(const Query& query, DraftAnswer* answer) = 0;

 protected:
  ~Asker() = default;
};

// Seconds of one round.
struct RoundTimes {
  std::optional<double> passing;  // the pass; none: not measured
  double drafting = 0.0;          // drafting, learning and planning
  double verifying = 0.0;         // verification; plain decoding has it too, for one token
  double luck = 0.0;              // waits for reads beyond those that `passing` has of them

  RoundTimes scaled(double scale) const {
    RoundTimes all = {passing, scale * drafting, scale * verifying, luck};
    if (passing) all.passing = scale * *passing;
    return all;
  }
};

class Round {
 public:
  // Whether no drafter is queried in this round, which is decided before it.
  virtual bool resting() const = 0;
  // Whether it rests because no draft can win what querying and learning take, as passes cost now.
  virtual bool unprofitable() const = 0;
  // Queries drafters and returns the tree to feed behind the last committed token. It lives as long as the round.
  // `certain`: a draft that is there already, at no cost.
  virtual const DraftTree& draft(Asker& asker, const DraftTree& certain) = 0;
  // Seconds that the pass over the draft takes by the costs known before it; 0 without costs.
  virtual double pass_s() const = 0;
  // Notes what was committed and how long it took.
  virtual void settle(Span<const int32_t> committed, const RoundTimes& times) = 0;

 protected:
  ~Round() = default;
};

// Makes rounds, one at a time: the next one ends the one before.
class Control {
 public:
  virtual ~Control() = default;
  // Starts a new sequence, which ends with any token of `stop_ids`.
  virtual void begin(Span<const int32_t> stop_ids) = 0;
  // Forgets a drafter that is gone: it is queried no more.
  virtual void drop(Source source) = 0;
  // Starts the next round, which may feed `room` drafted tokens.
  virtual Round& round(int room) = 0;
};

}  // namespace edgedec::engine
