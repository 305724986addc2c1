#include "core/sampling/mirostat.h"

#include <algorithm>

#include "core/sampling/portable.h"

namespace edgedec::engine {

Status bound_after(const HeadRows& rows, size_t row, const DrawParams& params, int32_t token, const DrawHistory& history,
                   DrawScratch* scratch, double* bound) {
  Row seen(rows, row, params, history, scratch);
  EDGEDEC_TRY(seen.begin());
  Candidates& kept = scratch->kept;
  if (!survivors(seen, params, scratch, &kept)) return seen.lacking();
  const double highest = *std::max_element(kept.values.begin(), kept.values.end());
  double total = 0.0, share = 0.0;
  for (size_t at = 0; at < kept.size(); ++at) {
    const double weight = portable_exp((kept.values[at] - highest) / seen.temperature());
    total += weight;
    if (kept.ids[at] == token) share = weight;
  }
  if (share == 0.0) return {Code::kBackend, "a token that the sampler cannot draw has no surprise"};
  const double surprise = -portable_log(share / total) / kLn2;
  *bound = seen.bound() - params.mirostat_eta * (surprise - params.mirostat);
  return {};
}

}  // namespace edgedec::engine
