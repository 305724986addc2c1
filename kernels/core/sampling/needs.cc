#include "core/sampling/needs.h"

namespace edgedec::engine {
namespace {

// Between these, a total from a logsumexp in float is exact to about 1e-5.
constexpr double kLowest = 0.1, kHighest = 10.0;

}  // namespace

bool needs_logits(const DrawParams& params, size_t head_k, Wants wants) {
  if (wants.masked || params.adjusts() || (wants.at_one && head_temperature(params) != 1.0)) return true;
  if (params.greedy()) return false;
  return params.top_n_sigma > 0.0 || params.top_k == 0 || static_cast<uint64_t>(params.top_k) > head_k;
}

double head_temperature(const DrawParams& params) {
  const bool within = kLowest <= params.temperature && params.temperature <= kHighest;
  return within && params.edt == 0.0 ? params.temperature : 1.0;
}

size_t drawing_bytes(const DrawParams& params, size_t head_k, Wants wants) {
  if (!needs_logits(params, head_k, wants)) return 0;
  if (!wants.masked && !needs_logits(params, head_k)) return 8;  // no list; but another sequence may still read rows of the pass before
  if (!wants.masked && params.uncut()) return 4 + 4 + 12;  // the leaders of a row, and what may win beside them
  const size_t row = wants.masked ? 4 + 8 : 0;             // the ids that a mask allows, and their logits
  const size_t adjusted = 16;                              // the adjusted row, and a copy in which its best are looked for
  const size_t list = 12 + 12;                             // values and ids, and both in another order
  const size_t weights = 8 + (params.narrows() ? 8 + 8 : 0);
  return row + adjusted + list + weights;
}

}  // namespace edgedec::engine
