#include "core/sampling/mirostat.h"

#include <algorithm>

#include "core/sampling/masked.h"
#include "core/sampling/portable.h"

namespace edgedec::engine {
namespace {

Status bound_behind(Row& seen, const DrawParams& params, int32_t token, DrawScratch* scratch, double* bound) {
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

}  // namespace

Status bound_after(const HeadView& rows, size_t row, const DrawParams& params, int32_t token, const DrawHistory& history,
                   Allowed* allowed, DrawScratch* scratch, double* bound) {
  if (allowed) {
    MaskedRow seen(rows, row, params, history, allowed, scratch);
    return bound_behind(seen, params, token, scratch, bound);
  }
  Row seen(rows, row, params, history, scratch);
  return bound_behind(seen, params, token, scratch, bound);
}

}  // namespace edgedec::engine
