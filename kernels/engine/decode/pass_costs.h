// The costs of a model's passes on this machine: measured once, kept in a file, corrected as they drift.
// edgedec/costs/pass_costs.py.
#pragma once

#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "core/base/status.h"
#include "core/control/costs.h"
#include "engine/decode/cost_file.h"
#include "core/decode/speculation.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// A curve of costs, and the file that keeps it.
class PassCosts final : public CostKeeper {
 public:
  CostCurve curve;

  // Reads the costs of passes from `file`, or measures them in a second or two, which empties the KV cache. Costs that
  // disagreed with what ran are measured again. `file` may be null: nothing is kept then. `again`: measures in any case.
  Status know(Forward& forward, const CostFile* file, Clock& clock, Notice* notice, bool again = false);
  // Writes seconds that replies corrected to the file. Nothing happens where that fails.
  void keep(const Points& seconds) override;

 private:
  const CostFile* file_ = nullptr;
  std::optional<KeptCosts> kept_;
};

// Times passes over an empty KV cache: CostSeries says which.
Status measure_costs(Forward& forward, Clock& clock, Notice* notice, Points* seconds);

}  // namespace edgedec::engine
