// Rounds without control: every drafter is queried, and its tokens are fed whether they pay or not.
#pragma once

#include <cstdint>
#include <vector>

#include "core/control/merge.h"
#include "core/control/round.h"

namespace edgedec::engine {

class Uncontrolled final : public Control, private Round {
 public:
  explicit Uncontrolled(size_t drafters) : here_(drafters, true) {}

  void begin(Span<const int32_t> stop_ids) override;
  void drop(Source source) override { here_[static_cast<size_t>(source)] = false; }
  Round& round(int room) override;

 private:
  bool resting() const override { return false; }
  bool unprofitable() const override { return false; }
  const DraftTree& draft(Asker& asker, const DraftTree& certain) override;
  double pass_s() const override { return 0.0; }
  void settle(Span<const int32_t>, const RoundTimes&) override {}

  std::vector<char> here_;   // whether each drafter has not been dropped
  std::vector<char> asked_;  // the same before the round, which asks those, too, that go during it
  std::vector<int32_t> stop_ids_;
  int room_ = 0;
  Merger merger_;
  DraftAnswer answer_;
  std::vector<DraftTree> proposed_;
  DraftTree fed_;
};

}  // namespace edgedec::engine
