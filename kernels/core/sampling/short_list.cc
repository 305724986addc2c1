#include "core/sampling/short_list.h"

#include <algorithm>
#include <cmath>

#include "core/sampling/noise.h"
#include "core/sampling/portable.h"
#include "core/sampling/warpers.h"

namespace edgedec::engine {
namespace {


// Cuts the list to what top-n-sigma and top-k leave; to nothing when it is too short to tell.
void cut_sigma_and_k(Row& row, const DrawParams& params, Candidates* list) {
  if (params.top_n_sigma != 0.0) {
    double cut = 0.0;
    if (!row.sigma_cut(&cut)) return list->cut(0);
    const size_t above = at_least_count(Span<const double>(list->values), cut, true);
    if (above == list->size() && !row.complete()) return list->cut(0);
    list->cut(above);
  } else if (static_cast<uint64_t>(params.top_k) > list->size() && !row.complete()) {
    return list->cut(0);
  }
  if (params.top_k != 0 && static_cast<uint64_t>(params.top_k) < list->size())
    list->cut(static_cast<size_t>(params.top_k));
}

// Bounds of the mass that top-p keeps of all that the list stands for; whether they can be had.
bool enough(const Candidates& list, bool filtered, Row& row, const DrawParams& params, double* low, double* high) {
  *low = *high = kInfinity;
  if (params.top_p == 1.0) return true;
  if (filtered) {
    double mass = 0.0;
    for (const double value : list.values) mass += portable_exp((value - list.values[0]) / row.temperature());
    *low = *high = params.top_p * mass;
    return true;
  }
  if (!row.total_bounds(list.values[0], low, high) || std::isnan(*high)) return false;
  *low *= params.top_p;
  *high *= params.top_p;
  return true;
}

// Puts weights exp((logit - highest) / T) of the tokens that every warper leaves into `kept`, best first; whether the
// list is long enough to tell.
bool surviving(Candidates* list, Row& row, const DrawParams& params, std::vector<double>* kept) {
  const bool filtered = params.top_n_sigma != 0.0 || params.top_k != 0;
  if (filtered) cut_sigma_and_k(row, params, list);
  if (list->size() == 0) return false;
  const double highest = list->values[0];
  double least = 0.0, surely = 0.0;
  if (!enough(*list, filtered, row, params, &least, &surely)) return false;
  const bool whole = filtered || row.complete();
  // Weights only fall: if all that are left, were they as large as this one, do not make up enough, the list is too
  // short. The margin covers rounding.
  const double hopeless = whole || params.min_p != 0.0 ? 0.0 : least * (1.0 - 1e-9);
  double mass = 0.0;
  for (size_t at = 0; at < list->size(); ++at) {
    const double weight = portable_exp((list->values[at] - highest) / row.temperature());
    if (weight < params.min_p) return true;  // wherever top-p would end
    kept->push_back(weight);
    mass += weight;
    if (least <= mass && mass < surely) {  // within the error of the sum: only the whole row can tell
      double total = 0.0;
      if (!row.total(highest, &total)) return false;
      least = surely = params.top_p * total;
    }
    if (mass >= least) return true;
    if (mass + static_cast<double>(list->size() - 1 - at) * weight < hopeless) return false;
  }
  return whole;
}

}  // namespace

bool draw_from_list(Row& row, const DrawParams& params, int64_t position, DrawScratch* scratch, int32_t* token) {
  Candidates& list = scratch->listed;
  row.listed(&list);
  if (list.size() == 0) return false;
  *token = list.ids[0];
  if (params.greedy()) return true;
  scratch->weights.clear();
  if (!surviving(&list, row, params, &scratch->weights)) return false;
  *token = list.ids[0];
  if (scratch->weights.size() < 2) return true;
  const Noise noise(params.seed, position);
  double best = kInfinity;
  for (size_t at = 0; at < scratch->weights.size(); ++at) {
    const double time = noise.exponential(list.ids[at]) / scratch->weights[at];
    if (time < best || (time == best && list.ids[at] < *token)) {
      best = time;
      *token = list.ids[at];
    }
  }
  return true;
}

}  // namespace edgedec::engine
