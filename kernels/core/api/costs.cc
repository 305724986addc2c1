// C ABI of the costs of passes, through handles. Costs that are made of others need them to live longer.
#include <vector>

#include "common/capi.h"
#include "core/control/batch_costs.h"
#include "core/control/energy_costs.h"
#include "core/control/streamed_costs.h"

using namespace edgedec::engine;

namespace {

Points points_of(int64_t count, const int32_t* tokens, const double* values) {
  Points points;
  for (int64_t at = 0; at < count; ++at) points.emplace_back(tokens[at], values[at]);
  return points;
}

// `missed` below 0: the pass read nothing.
const PassReads* reads_of(double missed, double waited_s, PassReads* reads) {
  *reads = {missed, waited_s};
  return missed < 0.0 ? nullptr : reads;
}

}  // namespace

// Null for points that are no curve.
EDGEDEC_EXPORT Costs* edgedec_core_costs_curve(int64_t count, const int32_t* tokens, const double* seconds, int old) {
  CostCurve curve;
  if (!CostCurve::make(points_of(count, tokens, seconds), old != 0, &curve).ok()) return nullptr;
  return new CostCurve(std::move(curve));
}

EDGEDEC_EXPORT Costs* edgedec_core_costs_streamed(Costs* curve, int64_t layers, int64_t count, int64_t chosen, int64_t slot_bytes,
                                             double resident) {
  return new StreamedCosts(*curve, {count, chosen, 0, layers, slot_bytes}, resident);
}

// `tokens` ascend from 1 on.
EDGEDEC_EXPORT Costs* edgedec_core_costs_energy(Costs* seconds, int64_t count, const int32_t* tokens, const double* watts) {
  return new EnergyCosts(*seconds, points_of(count, tokens, watts));
}

EDGEDEC_EXPORT void edgedec_core_costs_destroy(Costs* costs) { delete costs; }

EDGEDEC_EXPORT int edgedec_core_costs_longest(const Costs* costs) { return costs->longest(); }
EDGEDEC_EXPORT double edgedec_core_costs_plain(const Costs* costs) { return costs->plain(); }
EDGEDEC_EXPORT double edgedec_core_costs_seconds(const Costs* costs, int tokens) { return costs->seconds(tokens); }
EDGEDEC_EXPORT double edgedec_core_costs_price(const Costs* costs, double seconds, int tokens) {
  return costs->price(seconds, tokens);
}
EDGEDEC_EXPORT double edgedec_core_costs_expected(Costs* costs, int tokens, double seconds, double missed, double waited_s) {
  PassReads reads;
  return costs->expected(tokens, seconds, reads_of(missed, waited_s, &reads));
}
EDGEDEC_EXPORT double edgedec_core_costs_least_slope(const Costs* costs, int more) { return costs->least_slope(more); }
EDGEDEC_EXPORT int edgedec_core_costs_observe(Costs* costs, int tokens, double cost, int plain) {
  return costs->observe(tokens, cost, plain != 0);
}
EDGEDEC_EXPORT int edgedec_core_costs_doubt_level(Costs* costs) { return costs->doubt_level(); }
EDGEDEC_EXPORT int edgedec_core_costs_plain_is_unclear(const Costs* costs) { return costs->plain_is_unclear(); }
EDGEDEC_EXPORT int edgedec_core_costs_level_is_old(const Costs* costs) { return costs->level_is_old(); }
EDGEDEC_EXPORT double edgedec_core_costs_drift(const Costs* costs) { return costs->drift(); }

// Returns how many points there are; writes them where there is `room` for as many.
EDGEDEC_EXPORT int64_t edgedec_core_costs_measured(const Costs* costs, int64_t room, int32_t* tokens, double* seconds) {
  const Points points = costs->measured();
  const auto count = static_cast<int64_t>(points.size());
  for (size_t at = 0; count <= room && at < points.size(); ++at) {
    tokens[at] = points[at].first;
    seconds[at] = points[at].second;
  }
  return count;
}

EDGEDEC_EXPORT BatchCosts* edgedec_core_batch(Costs* table, int64_t sequences) {
  return new BatchCosts(*table, static_cast<size_t>(sequences));
}
EDGEDEC_EXPORT void edgedec_core_batch_destroy(BatchCosts* batch) { delete batch; }
// The costs of one sequence; they live as long as those of the batch.
EDGEDEC_EXPORT Costs* edgedec_core_batch_view(BatchCosts* batch, int64_t sequence) {
  return &batch->view(static_cast<size_t>(sequence));
}
// A pass took `seconds` over tokens[i] of sequences[i].
EDGEDEC_EXPORT void edgedec_core_batch_passed(BatchCosts* batch, int64_t count, const int32_t* sequences,
                                               const int32_t* tokens, double seconds, double missed, double waited_s) {
  std::vector<std::pair<int, int>> all;
  for (int64_t at = 0; at < count; ++at) all.emplace_back(sequences[at], tokens[at]);
  PassReads reads;
  batch->passed({all.data(), all.size()}, seconds, reads_of(missed, waited_s, &reads));
}
