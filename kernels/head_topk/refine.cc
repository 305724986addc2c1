#include "head_topk/refine.h"

#include <cmath>

#include "simd/math64.h"

namespace edgedec::head_topk {

float two_term_logit(const quant_linear::Row& linear, const Weight& table, const Acts& acts, int m, int32_t id) {
  const auto tiles = linear.tiles[static_cast<int>(table.format)];
  const int tile = id / kTile, second = acts.m / 2 + m;
  float one[kTile], two[kTile];
  tiles(table, acts, m, m + 1, tile, tile + 1, one, kTile);
  tiles(table, acts, second, second + 1, tile, tile + 1, two, kTile);
  return one[id % kTile] + two[id % kTile];
}

float floor_of(const Best& best, int others) {
  if (!best.count || !others) return -__builtin_inff();
  float least = best.all[0].value;
  for (const Candidate& c : best) least = std::min(least, c.value);
  return std::nextafter(least, __builtin_inff());
}

float settled(const Row& row, float coarse, float fine, float floor, float softcap) {
  const bool finite = std::isfinite(fine);
  if (softcap > 0.0f) row.softcap(&fine, 1, softcap);
  return finite ? std::max(fine, floor) : coarse;
}

void replace(const Row& row, const Best& best, const float* fine, int others, float inverse, RowSums& sums) {
  if (!best.count) return;
  float least = best.all[0].value, top = fine[0];
  double rest = sums.sum, rest_weighted = sums.weighted;
  for (size_t i = 0; i < best.count; ++i) {
    const float d = scaled(best.all[i].value - sums.base, inverse);
    const double e = row.exp(d);
    rest -= e;
    rest_weighted -= e * d;
    least = std::min(least, best.all[i].value);
    top = std::max(top, fine[i]);
  }
  // The contribution of the other entries is now a difference, which cancellation may leave anywhere near zero. Each of
  // them is at most `least`, which bounds their sum; relative to `least` it moves to the new base without overflow.
  const float least_d = scaled(least - sums.base, inverse), base = std::max(top, least);
  const double unit = row.exp(least_d);
  rest = unit > 0.0 ? std::clamp(rest / unit, 0.0, static_cast<double>(others)) : 0.0;
  rest_weighted = rest > 0.0 ? std::min(rest_weighted / unit, rest * least_d) : 0.0;
  const double factor = row.exp(scaled(least - base, inverse));
  rest_weighted += static_cast<double>(scaled(sums.base - base, inverse)) * rest;
  sums = {base, factor * rest, factor * rest_weighted};
  for (size_t i = 0; i < best.count; ++i) {
    const float d = scaled(fine[i] - base, inverse);
    const double e = row.exp(d);
    sums.sum += e;
    sums.weighted += e * d;
    best.all[i].value = fine[i];
  }
}

void write(const Best& best, const RowSums& sums, float inverse, int k, const Result& out, int r) {
  std::sort(best.begin(), best.end(), better);
  for (int i = 0; i < k; ++i) {
    const bool there = static_cast<size_t>(i) < best.count;
    out.values[static_cast<size_t>(r) * k + i] = there ? best.all[i].value : -__builtin_inff();
    out.ids[static_cast<size_t>(r) * k + i] = there ? best.all[i].id : -1;
  }
  const double log_sum = std::isnan(sums.sum) ? sums.sum : log_exact(sums.sum);
  out.logsumexp[r] = static_cast<float>(static_cast<double>(sums.base) * inverse + log_sum);
  out.entropy[r] = static_cast<float>(log_sum - sums.weighted / sums.sum);
}

}  // namespace edgedec::head_topk
