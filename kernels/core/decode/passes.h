// Passes over the committed tokens: how long one may be, and its time: edgedec/decode/passes.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/clock.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "core/rows.h"
#include "core/tree.h"
#include "core/decode/drafter.h"
#include "core/decode/records.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

constexpr int64_t kLongestPass = 128;  // tokens: a reply can be interrupted between passes, and longer ones gain nothing

// Counts of passes.
struct Work {
  int64_t passes = 0, tokens = 0;
};

// A pass that is wanted: the arguments of Forward::extend.
struct WantedPass {
  Span<const int32_t> tokens;
  Span<const int> parents;
  Rows rows;
  HeadRows* found = nullptr;
};

// Feeds a model's cache.
class SequencePasses {
 public:
  SequencePasses(Forward& forward, PassObserver* observer, Clock* clock);

  // Most tokens of one pass.
  int64_t longest() const;
  // Describes a pass over `tokens`, a chain, and `tree` behind the last of them. Valid until the next call.
  const WantedPass& want(Span<const int32_t> tokens, const DraftTree& tree, const Rows& rows, HeadRows* head);
  // Runs the wanted pass.
  Status run(double* seconds);
  // Counts the wanted pass, which was computed.
  void count();
  // Tells a listener how much of the committed tokens the cache holds; whether to go on.
  bool report(ReplyListener* listener, size_t committed) const;
  void record(const PassRecord& record);

  const Work& work() const { return work_; }

 private:
  Forward& forward_;
  PassObserver* observer_;
  Clock* clock_;
  Work work_;
  WantedPass wanted_;
  std::vector<int32_t> tokens_;
  std::vector<int> parents_;
};

}  // namespace edgedec::engine
