#include "core/sampling/masked.h"

#include <algorithm>

#include "core/sampling/portable.h"
#include "core/sampling/sort.h"

namespace edgedec::engine {
namespace {

constexpr size_t kFew = 1024;   // allowed tokens that are all sorted at once
constexpr double kNear = 2.0;   // logits below the list's last one among which the rest of top-k is looked for
constexpr size_t kProbes = 4;   // tokens of the list that show how much is allowed
constexpr double kMaskedMargin = 1e-4;  // covers the error of the head's float32 sum, and of adding up
constexpr double kMostMaskedExponent = 600.0;

}  // namespace

bool MaskedRow::permits(int32_t token) {
  if (const int32_t known = known_.count(token)) return known > 1;
  const bool may = allowed_.permits(token);
  known_.add(token);
  if (may) known_.add(token);
  return may;
}

// Whether most tokens may come next.
bool MaskedRow::wide() {
  if (wide_ < 0) {
    const size_t probes = std::min(kProbes, rows_.k);
    size_t legal = 0;
    for (size_t at = 0; at < probes; ++at) legal += permits(rows_.ids[row_ * rows_.k + at]);
    wide_ = legal > kProbes / 2;
  }
  return wide_ != 0;
}

bool MaskedRow::has_bits() {
  if (!bits_ && error_.ok()) {
    bits_ = allowed_.bits();
    if (!bits_) error_ = {Code::kBackend, "the grammar does not say which tokens may come next"};
  }
  return bits_ != nullptr;
}

void MaskedRow::permitted(const std::vector<int32_t>& ids, std::vector<char>* may) {
  may->resize(ids.size());
  const bool single = ids.size() <= rows_.k && !bits_ && wide();
  const bool mask = !single && has_bits();
  for (size_t at = 0; at < ids.size(); ++at) {
    const auto id = static_cast<uint32_t>(ids[at]);
    const bool legal = single ? permits(ids[at]) : mask && ids[at] >= 0 && id < rows_.vocabulary && (bits_[id >> 3] >> (id & 7) & 1);
    (*may)[at] = legal;
  }
}

void MaskedRow::keep_permitted(Candidates* found) {
  permitted(found->ids, &may_);
  size_t kept = 0;
  for (size_t at = 0; at < may_.size(); ++at) {
    if (!may_[at] || !(found->values[at] > -kInfinity)) continue;
    found->values[kept] = found->values[at];
    found->ids[kept++] = found->ids[at];
  }
  found->cut(kept);
}

void MaskedRow::keep_legal(std::vector<int32_t>* ids) {
  permitted(*ids, &may_);
  size_t kept = 0;
  for (size_t at = 0; at < may_.size(); ++at)
    if (may_[at]) (*ids)[kept++] = (*ids)[at];
  ids->resize(kept);
}

void MaskedRow::listed(Candidates* found) {
  Row::listed(found);
  keep_permitted(found);
  found->complete = false;
}

bool MaskedRow::longer(size_t tried, Candidates* found) {
  if (!has_logits()) return false;
  if (tried == 0 && wide() && near(found)) {
    near_ = 1;
    return true;
  }
  if (!all()) return false;
  const size_t at = tried - near_;
  if (scratch_.allowed.size() <= kFew) return at == 0 && every(found);
  if (!Row::longer(at, found)) return false;
  keep_permitted(found);
  return true;
}

bool MaskedRow::leaders(Candidates* found) {
  if (!numbers()) return false;
  listed(found);
  for (size_t tried = 0; found->size() == 0; ++tried)
    if (!longer(tried, found)) return false;
  return true;
}

// As many of the best allowed tokens as top-k keeps, without a mask; false where that takes too many. Mostly they are in
// the list or a little below it.
bool MaskedRow::near(Candidates* found) {
  if (adjusts_ || params_.top_k == 0 || !numbers()) return false;
  const double least = static_cast<double>(rows_.values[row_ * rows_.k + rows_.k - 1]) - kNear;
  const float* row = logits();
  found->clear();
  for (size_t id = 0; id < size(); ++id) {
    if (!(static_cast<double>(row[id]) > least)) continue;
    if (found->size() == kFew) return false;
    found->add(static_cast<double>(row[id]), static_cast<int32_t>(id));
  }
  sort_by(falling, {found->values, scratch_.scaled, found->ids, scratch_.order});
  size_t kept = 0;
  for (size_t at = 0; at < found->size(); ++at) {
    if (!permits(found->ids[at])) continue;
    found->values[kept] = found->values[at];
    found->ids[kept++] = found->ids[at];
    if (kept < static_cast<size_t>(params_.top_k)) continue;
    found->cut(kept);
    return true;
  }
  return false;
}

// All allowed tokens that can be drawn, by ascending id: ids in `allowed`, adjusted logits in `legal`.
const std::vector<double>* MaskedRow::all() {
  if (made_) return &scratch_.legal;
  if (!numbers() || !has_bits()) return nullptr;
  scratch_.allowed.clear();
  scratch_.legal.clear();
  for (size_t id = 0; id < size(); ++id) {
    if (!(bits_[id >> 3] >> (id & 7) & 1)) continue;
    const double value = value_of(static_cast<int32_t>(id));
    if (!(value > -kInfinity)) continue;
    scratch_.allowed.push_back(static_cast<int32_t>(id));
    scratch_.legal.push_back(value);
  }
  if (scratch_.allowed.empty()) {
    error_ = {Code::kUsage, "no token is left to draw", "grammar and logit bias leave none"};
    return nullptr;
  }
  made_ = true;
  return &scratch_.legal;
}

bool MaskedRow::every(Candidates* found) {
  found->values = scratch_.legal;
  found->ids = scratch_.allowed;
  found->complete = true;
  sort_by(falling, {found->values, scratch_.scaled, found->ids, scratch_.order});
  return true;
}

// Bounds of the total: the allowed tokens of the list have a part of it, the others none.
bool MaskedRow::total_bounds(double highest, double* low, double* high) {
  double whole = 0.0;
  if (!whole_at_most(highest, &whole)) {
    if (!total(highest, low)) return false;
    *high = *low;
    return true;
  }
  Candidates& list = scratch_.lifted;
  Row::listed(&list);
  permitted(list.ids, &may_);
  double legal = 0.0, others = 0.0;
  for (size_t at = 0; at < list.size(); ++at)
    (may_[at] ? legal : others) += portable_exp((list.values[at] - highest) / temperature_);
  *low = legal * (1.0 - kMaskedMargin);
  *high = std::max(whole - others, legal) + kMaskedMargin * whole;
  return true;
}

// The sum over the whole vocabulary, or a little more; false where only the row itself could tell.
bool MaskedRow::whole_at_most(double highest, double* most) {
  const double exponent = static_cast<double>(rows_.logsumexp[row_]) - highest / temperature_;
  if (temperature_ != rows_.temperature || !(exponent < kMostMaskedExponent)) return false;
  double low = 0.0;
  if (adjusts_) return corrected(&low) && Row::total_bounds(highest, &low, most);
  *most = portable_exp(exponent);
  return true;
}

}  // namespace edgedec::engine
