// Costs of passes that read experts from a disk: what they compute, and what they wait for.
//
// The time of such a pass depends on which experts were in memory, so what passes took says little of the next ones. The
// two parts are therefore learned apart: a curve has the seconds that passes compute, and waits are
//
//     seconds of a read that is waited for x (reads of a pass over one token + those that further tokens add)
//
// A token behind others takes some of the experts that they have read. If each expert is as likely as any other, token n
// adds a share of (1 - chosen / count)^(n - 1) of the reads of one that is alone; measured reads say by which factor the
// tokens that drafts have are better or worse than that. Where text repeats, its experts are still in memory: then passes
// read little, and drafts cost little.
#pragma once

#include <cstdint>
#include <vector>

#include "core/control/wrapped_costs.h"
#include "core/model_spec.h"

namespace edgedec::engine {

class StreamedCosts final : public WrappedCosts {
 public:
  // `resident`: the share of the experts that are in memory at a time. What `curve` is told of passes has no waits in it.
  StreamedCosts(Costs& curve, const Experts& experts, double resident);

  // Seconds that a pass waits for reads, as passes were lately.
  double waits(int tokens) const;

  double seconds(int tokens) const override { return inner_.seconds(tokens) + waits(tokens); }
  // Learns from what the pass read.
  double expected(int tokens, double seconds, const PassReads* reads) override;
  bool observe(int tokens, double seconds, bool plain) override {
    return inside(tokens) && inner_.observe(tokens, seconds - waits(tokens), plain);
  }

 private:
  void weigh(double keeping, double more);

  double few_;
  double reads_;  // of a pass over one token
  int64_t seen_ = 0;
  double more_, beside_;  // reads that a drafted token added, by its share, and those of one alone at that time
  double waited_, waited_for_;  // seconds of waiting, lately, and the reads that were waited for
  std::vector<double> adds_;
};

}  // namespace edgedec::engine
