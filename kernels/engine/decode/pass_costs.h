// The costs of a model's passes on this machine: measured once, kept in a file, corrected as they drift.
// edgedec/costs/pass_costs.py.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "core/base/status.h"
#include "core/control/costs.h"
#include "core/control/streamed_costs.h"
#include "engine/decode/cost_file.h"
#include "core/decode/speculation.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// A curve of costs, and the file that keeps it.
class PassCosts final : public CostKeeper {
 public:
  CostCurve curve;
  double resident = 1.0;  // the share of a model's experts that is in memory at a time

  // The costs that drafts are planned by: beside the curve what passes wait for experts.
  Costs& costs() { return streamed_ ? static_cast<Costs&>(*streamed_) : curve; }
  // Reads the costs of passes from `file`, or measures them in a second or two, which empties the KV cache. Costs that
  // disagreed with what ran are measured again. `file` may be null: nothing is kept then. `again`: measures in any case.
  Status know(Forward& forward, const CostFile* file, Clock& clock, Notice* notice, bool again = false);
  // Writes seconds that replies corrected to the file. Nothing happens where that fails.
  void keep(const Points& seconds) override;

 private:
  Status find(Forward& forward, Clock& clock, Notice* notice, bool again);

  const CostFile* file_ = nullptr;
  std::unique_ptr<StreamedCosts> streamed_;
  std::optional<KeptCosts> kept_;
};

// Times passes over an empty KV cache: CostSeries says which.
Status measure_costs(Forward& forward, Clock& clock, Notice* notice, Points* seconds);

}  // namespace edgedec::engine
