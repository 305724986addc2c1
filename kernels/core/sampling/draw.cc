#include "core/sampling/draw.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/sampling/masked.h"
#include "core/sampling/narrowing.h"
#include "core/sampling/noise.h"
#include "core/sampling/portable.h"
#include "core/sampling/short_list.h"
#include "core/sampling/warpers.h"

namespace edgedec::engine {
namespace {

constexpr double kMargin = 1.0 + 1e-9;  // covers rounding

// Why a row without a best logit cannot be drawn from.
Status not_finite(float best) {
  const char* shown = std::isnan(best) ? "nan" : best > 0 ? "inf" : "-inf";
  return {Code::kBackend, std::string("the model returned ") + shown + " as its best logit", "verify the bundle"};
}

// How many of the tokens that are left top-p leaves; `earlier`: whether they are all that cuts before it left.
size_t nucleus(const Candidates& list, bool earlier, Row& row, const DrawParams& params,
               const std::vector<double>& weights) {
  const Span<const double> all(weights);
  if (earlier) return top_p_count(all, total_of(all), params.top_p, list.complete);
  double low = 0.0, high = 0.0;
  if (!row.total_bounds(list.values[0], &low, &high)) return kUnknown;
  const size_t fewest = top_p_count(all, low, params.top_p, list.complete);
  if (fewest == top_p_count(all, high, params.top_p, list.complete)) return fewest;
  double total = 0.0;
  if (!row.total(list.values[0], &total)) return kUnknown;
  return top_p_count(all, total, params.top_p, list.complete);
}

// Cuts the list to what survives the warpers before those of `narrowing`; whether it is long enough to tell.
bool cut_all(Candidates* list, Row& row, const DrawParams& params, std::vector<double>* weights) {
  const auto keep = [list](size_t count) {
    if (count == kUnknown) return false;
    list->cut(count);
    return list->complete = true;
  };
  if (list->size() == 0 || params.greedy()) return keep(std::min<size_t>(list->size(), 1));
  if (params.top_n_sigma != 0.0) {
    double cut = 0.0;
    if (!row.sigma_cut(&cut) || !keep(at_least_count(Span<const double>(list->values), cut, list->complete))) return false;
  }
  if (params.top_k != 0 && !keep(top_k_count(list->size(), params.top_k, list->complete))) return false;
  if (params.top_p == 1.0 && params.min_p == 0.0) return list->complete;
  if (list->size() == 0) return false;
  weights->resize(list->size());
  for (size_t at = 0; at < list->size(); ++at) (*weights)[at] = (list->values[at] - list->values[0]) / row.temperature();
  portable_exp(Span<double>(*weights));
  if (params.top_p < 1.0) {
    const bool earlier = params.top_n_sigma != 0.0 || params.top_k != 0;
    if (!keep(nucleus(*list, earlier, row, params, *weights))) return false;
  }
  return keep(at_least_count(Span<const double>(*weights).first(list->size()), params.min_p, list->complete));
}

// The prefixes of a row, longer and longer, until one is long enough to tell what survives.
class Cutting {
 public:
  Cutting(Row& row, const DrawParams& params, DrawScratch* scratch)
      : row_(row), params_(params), scratch_(*scratch), narrows_(params.narrows() && !params.greedy()),
        narrowing_(params, params.filters(), true, scratch) {}

  bool from_head(Candidates* left) {
    row_.listed(left);
    return told(left);
  }

  bool from_row(Candidates* left) {
    for (size_t tried = 0; row_.longer(tried, left); ++tried)
      if (told(left)) return true;
    return false;
  }

 private:
  bool told(Candidates* left) {
    if ((!narrows_ || params_.filters()) && !cut_all(left, row_, params_, &scratch_.weights)) return false;
    if (left->size() == 0) return false;
    return !narrows_ || narrowing_.narrow(&row_, row_.temperature(), left);
  }

  Row& row_;
  const DrawParams& params_;
  DrawScratch& scratch_;
  const bool narrows_;
  Narrowing narrowing_;
};

// argmin of noise / weight (the lowest id on a tie); `sorted`: best first. Tokens that provably lose are left out: with
// the best time so far, another wins only if its E < time * weight, and E = -log U >= 1 - U.
int32_t choose(const Candidates& kept, bool sorted, const Row& row, const DrawParams& params, int64_t position) {
  if (kept.size() == 1 || params.greedy()) return kept.ids[0];
  const double highest = *std::max_element(kept.values.begin(), kept.values.end());
  const Noise noise(params.seed, position);
  double best = kInfinity, most_weight = 1.0;
  int32_t token = kept.ids[0];
  for (size_t at = 0; at < kept.size(); ++at) {
    const int32_t id = kept.ids[at];
    if (1.0 - noise.uniform(id) > best * most_weight * kMargin) continue;
    const double weight = portable_exp((kept.values[at] - highest) / row.temperature());
    if (sorted) most_weight = weight;
    const double time = noise.exponential(id) / weight;
    if (time > best || (time == best && id > token)) continue;
    best = time;
    token = id;
  }
  return token;
}

// Adds all other tokens of the vocabulary that can win to its leaders, in no order.
void add_likely(Row& row, const DrawParams& params, int64_t position, DrawScratch* scratch, Candidates* leaders) {
  const Noise noise(params.seed, position);
  double best = kInfinity, least_weight = kInfinity;
  for (size_t at = 0; at < leaders->size(); ++at) {
    const double weight = portable_exp((leaders->values[at] - leaders->values[0]) / row.temperature());
    best = std::min(best, noise.exponential(leaders->ids[at]) / weight);
    least_weight = std::min(least_weight, weight);
  }
  const uint64_t least = least_bits_above(1.0 - best * least_weight * kMargin);
  std::vector<int32_t>& lucky = scratch->spare;
  lucky.clear();
  for (size_t id = 0; id < row.size(); ++id)
    if (noise.bits(static_cast<int64_t>(id)) >> 12 >= least) lucky.push_back(static_cast<int32_t>(id));
  row.keep_legal(&lucky);
  for (const int32_t id : lucky) leaders->add(row.value_of(id), id);
}

Status drawn(Row& seen, const DrawParams& params, int64_t position, DrawScratch* scratch, int32_t* token) {
  EDGEDEC_TRY(seen.begin());
  Candidates& kept = scratch->kept;
  if (params.uncut()) {
    if (!seen.leaders(&kept)) return seen.lacking();
    const bool sorted = kept.complete;
    if (!sorted) add_likely(seen, params, position, scratch, &kept);
    *token = choose(kept, sorted, seen, params, position);
    return {};
  }
  if (params.narrows() && !params.greedy()) {
    if (!survivors(seen, params, scratch, &kept)) return seen.lacking();
  } else {
    if (draw_from_list(seen, params, position, scratch, token)) return {};
    if (!Cutting(seen, params, scratch).from_row(&kept)) return seen.lacking();
  }
  *token = choose(kept, true, seen, params, position);
  return {};
}

}  // namespace

bool survivors(Row& row, const DrawParams& params, DrawScratch* scratch, Candidates* left) {
  Cutting cutting(row, params, scratch);
  return cutting.from_head(left) || cutting.from_row(left);
}

Status draw(const HeadView& rows, size_t row, const DrawParams& params, int64_t position, const DrawHistory& history,
            Allowed* allowed, DrawScratch* scratch, int32_t* token) {
  if (allowed) {
    if (params.greedy() || params.uncut()) {
      // The winner of all tokens also wins among those allowed, if it is one; then no mask is made.
      EDGEDEC_TRY(draw(rows, row, params, position, history, nullptr, scratch, token));
      if (allowed->permits(*token)) return {};
    }
    MaskedRow seen(rows, row, params, history, allowed, scratch);
    return drawn(seen, params, position, scratch, token);
  }
  const float best = rows.values[row * rows.k];
  if (!std::isfinite(best)) return not_finite(best);
  *token = rows.ids[row * rows.k];
  if (params.greedy() && !params.adjusts()) return {};
  Row seen(rows, row, params, history, scratch);
  return drawn(seen, params, position, scratch, token);
}

}  // namespace edgedec::engine
