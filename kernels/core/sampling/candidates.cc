#include "core/sampling/candidates.h"

#include <algorithm>
#include <cmath>

#include "core/sampling/portable.h"
#include "core/sampling/sort.h"
#include "core/sampling/temperature.h"
#include "core/sampling/warpers.h"

namespace edgedec::engine {
namespace {

constexpr size_t kBlock = 1024;  // weights computed at a time: they stay in the cache
// Error, at most, of the head's float32 logsumexp: absolute, and relative to it.
constexpr double kSumError = 1e-5, kSumErrorShare = 1e-6;
constexpr double kMostExponent = 700.0;
// Candidates sorted out of a whole row at first; then kStep times as many, until it is all of it.
constexpr size_t kLonger = 1024, kStep = 8;

// The `size`-th largest of a row. Its leading bits are found by counting, and only numbers that share them are compared.
template <class T>
double nth_largest(Span<const T> row, size_t size, std::vector<double>* alike) {
  constexpr int kBits = 14;  // sign, exponent, and the head of the fraction
  std::vector<uint32_t> counts(size_t{1} << kBits, 0);
  const auto leading = [](T value) { return falling(static_cast<double>(value)) >> (64 - kBits); };
  for (const T value : row) ++counts[leading(value)];
  uint64_t bin = 0;
  size_t before = 0;
  while (before + counts[bin] < size) before += counts[bin++];
  alike->clear();
  alike->reserve(counts[bin]);
  for (const T value : row)
    if (leading(value) == bin) alike->push_back(static_cast<double>(value));
  const auto nth = alike->begin() + static_cast<std::ptrdiff_t>(size - before - 1);
  std::nth_element(alike->begin(), nth, alike->end(), [](double a, double b) { return falling(a) < falling(b); });
  return *nth;
}

// Appends ids, ascending, of the `size` largest of a row and of all equal to the last of them.
template <class T>
void largest(Span<const T> row, size_t size, std::vector<double>* alike, Candidates* found) {
  const double least = size < row.size() ? nth_largest(row, size, alike) : -kInfinity;
  const auto count = static_cast<size_t>(std::count_if(row.begin(), row.end(), [least](T one) { return one >= least; }));
  found->values.reserve(count);
  found->ids.reserve(count);
  for (size_t id = 0; id < row.size(); ++id)
    if (row[id] >= least) found->add(static_cast<double>(row[id]), static_cast<int32_t>(id));
}

// Puts candidates of ascending ids into canonical order.
void sort_long(Candidates* found, std::vector<int32_t>* order, std::vector<double>* values) {
  sort_by(falling, {found->values, *values, found->ids, *order});
}

// Puts a few candidates into canonical order.
void sort(Candidates* found, std::vector<int32_t>* order, std::vector<double>* values) {
  const size_t count = found->size();
  order->resize(count);
  for (size_t at = 0; at < count; ++at) (*order)[at] = static_cast<int32_t>(at);
  std::sort(order->begin(), order->end(), [found](int32_t a, int32_t b) {
    const uint64_t left = falling(found->values[a]), right = falling(found->values[b]);
    return left != right ? left < right : found->ids[a] < found->ids[b];
  });
  values->assign(found->values.begin(), found->values.end());
  for (size_t at = 0; at < count; ++at) found->values[at] = (*values)[(*order)[at]];
  for (int32_t& place : *order) place = found->ids[place];
  found->ids.swap(*order);
}

}  // namespace

void Candidates::clear() {
  values.clear();
  ids.clear();
  complete = false;
}

void Candidates::add(double value, int32_t id) {
  values.push_back(value);
  ids.push_back(id);
}

void Candidates::cut(size_t count) {
  values.resize(count);
  ids.resize(count);
}

size_t DrawScratch::bytes() const {
  size_t eights = whole.capacity() + selected.capacity() + legal.capacity() + scaled.capacity() + weights.capacity() + far.capacity();
  size_t fours = touched.capacity() + order.capacity() + spare.capacity() + allowed.capacity();
  for (const Candidates* each : {&listed, &kept, &lifted}) {
    eights += each->values.capacity();
    fours += each->ids.capacity();
  }
  return 8 * eights + 4 * fours;
}

Row::Row(const HeadView& rows, size_t row, const DrawParams& params, const DrawHistory& history, DrawScratch* scratch)
    : rows_(rows), row_(row), params_(params), adjustment_(params, history), scratch_(*scratch),
      adjusts_(params.adjusts()), bound_(history.bound().value_or(2.0 * params.mirostat)) {}

Status Row::begin() { return temperature_of(params_, rows_, row_, &temperature_); }

Status Row::lacking() const {
  if (!error_.ok()) return error_;
  return {Code::kBackend, "these sampling settings need whole logits rows and the pass returned none"};
}

void Row::listed(Candidates* found) {
  const float* values = rows_.values + row_ * rows_.k;
  const int32_t* ids = rows_.ids + row_ * rows_.k;
  found->clear();
  found->complete = complete();
  if (adjusts_ && adjustment_.lifts() && !has_logits()) return;
  bool moved = false;
  for (size_t at = 0; at < rows_.k; ++at) {
    const double before = static_cast<double>(values[at]);
    const double value = adjusts_ ? adjustment_.one(before, ids[at]) : before;
    moved |= value != before;
    found->add(value, ids[at]);
  }
  if (!adjusts_) return;
  const double floor = static_cast<double>(values[rows_.k - 1]);  // no logit outside the list is above it, but lifted ones
  const bool lifts = adjustment_.lifts() && !complete();
  if (lifts) add_lifted(floor, rows_.k, found);
  sort(found, &scratch_.order, &scratch_.scaled);
  const double least = !complete() && (lifts || moved) ? floor : adjustment_.bans() ? -kInfinity : kInfinity;
  if (least == kInfinity) return;
  size_t sure = 0;
  while (sure < found->size() && found->values[sure] > least) ++sure;
  found->cut(sure);
}

void Row::add_lifted(double floor, size_t listed, Candidates* found) {
  adjustment_.touched(&scratch_.touched);
  const auto known = [&](int32_t id) {
    return std::find(found->ids.begin(), found->ids.begin() + static_cast<std::ptrdiff_t>(listed), id) !=
           found->ids.begin() + static_cast<std::ptrdiff_t>(listed);
  };
  for (const int32_t id : scratch_.touched) {
    if (static_cast<size_t>(id) >= size()) continue;
    const double value = value_of(id);
    if (value > floor && !known(id)) found->add(value, id);
  }
}

double Row::value_of(int32_t id) const {
  const double value = static_cast<double>(logits()[id]);
  return adjusts_ ? adjustment_.one(value, id) : value;
}

bool Row::numbers() {
  if (!has_logits() || !error_.ok()) return false;
  if (numbers_) return true;
  const float* row = logits();
  bool all = true;
  for (size_t at = 0; at < size(); ++at) all &= row[at] == row[at];
  if (!all) error_ = {Code::kBackend, "the model returned logits that are not numbers", "verify the bundle"};
  return numbers_ = all;
}

bool Row::whole() {
  if (whole_) return true;
  if (!numbers()) return false;
  scratch_.whole.assign(logits(), logits() + size());
  if (adjusts_) {
    adjustment_.touched(&scratch_.touched);
    for (const int32_t id : scratch_.touched)
      if (static_cast<size_t>(id) < size()) scratch_.whole[id] = adjustment_.one(scratch_.whole[id], id);
  }
  return whole_ = true;
}

bool Row::longer(size_t tried, Candidates* found) {
  if (!has_logits()) return false;
  size_t count = std::max(kLonger, static_cast<size_t>(params_.top_k));
  for (; tried > 0; --tried) {
    if (count >= size()) return false;
    count = count > size() / kStep ? size() : count * kStep;
  }
  return from_row(std::min(count, size()), found);
}

// The `size` best of the whole row and all equal to the last of them; whether they could be had.
bool Row::from_row(size_t size, Candidates* found) {
  if (adjusts_ ? !whole() : !numbers()) return false;
  found->clear();
  if (adjusts_) {
    largest(Span<const double>(scratch_.whole), size, &scratch_.selected, found);
  } else {
    largest(Span<const float>(logits(), this->size()), size, &scratch_.selected, found);
  }
  found->complete = found->size() == this->size();
  sort_long(found, &scratch_.order, &scratch_.scaled);
  if (!adjusts_ || !adjustment_.bans()) return true;
  size_t legal = found->size();
  while (legal > 0 && found->values[legal - 1] == -kInfinity) --legal;
  found->cut(legal);
  if (legal == 0) error_ = {Code::kUsage, "no token is left to draw", "the logit bias bans every one"};
  return legal > 0;
}

bool Row::leaders(Candidates* found) {
  if (!numbers()) return false;
  listed(found);
  return found->size() > 0 || from_row(std::min(rows_.k, size()), found);
}

bool Row::sigma_cut(double* cut) {
  const std::vector<double>* every = all();
  if (!every) return false;
  double sum = 0.0, squares = 0.0, highest = -kInfinity;
  size_t count = 0;
  for (const double value : *every)
    if (std::isfinite(value)) {
      sum += value;
      highest = std::max(highest, value);
      ++count;
    }
  if (count == 0) {
    error_ = {Code::kUsage, "no token is left to draw", "the logit bias bans every one"};
    return false;
  }
  const double mean = sum / static_cast<double>(count);
  for (const double value : *every)
    if (std::isfinite(value)) squares += (value - mean) * (value - mean);
  *cut = highest - params_.top_n_sigma * std::sqrt(squares / static_cast<double>(count));
  return true;
}

bool Row::sum_up(double highest, double* total, double* mean) {
  const std::vector<double>* every = all();
  if (!every) return false;
  double weights[kBlock], scaled[kBlock];
  double sum = 0.0, shares = 0.0;
  for (size_t start = 0; start < every->size(); start += kBlock) {
    const size_t count = std::min(kBlock, every->size() - start);
    for (size_t at = 0; at < count; ++at)
      weights[at] = scaled[at] = ((*every)[start + at] - highest) / temperature_;
    portable_exp(Span<double>(weights, count));
    for (size_t at = 0; at < count; ++at) sum += weights[at];
    for (size_t at = 0; at < count; ++at) shares += weights[at] * std::max(scaled[at], -kMostExponent);
  }
  *total = sum;
  *mean = shares;
  return true;
}

bool Row::total(double highest, double* total) {
  if (by_head()) {
    *total = portable_exp(logsumexp() - highest / temperature_);
    return true;
  }
  double mean = 0.0;
  return sum_up(highest, total, &mean);
}

bool Row::entropy(double highest, double* entropy) {
  if (by_head()) {
    *entropy = static_cast<double>(rows_.entropy[row_]);
    return true;
  }
  double total = 0.0, mean = 0.0;
  if (!sum_up(highest, &total, &mean)) return false;
  *entropy = portable_log(total) - mean / total;
  return true;
}

bool Row::total_bounds(double highest, double* low, double* high) {
  double sum = 0.0;
  if (!corrected(&sum)) {
    if (!total(highest, low)) return false;
    *high = *low;
    return true;
  }
  const double scale = portable_exp(logsumexp() - highest / temperature_);
  const double error = kSumError + kSumErrorShare * std::abs(logsumexp());
  *low = (sum - error) * scale;
  *high = (sum + error) * scale;
  return true;
}

// The sum of adjusted weights in units of the head's own sum: what an adjustment touches goes and comes again.
bool Row::corrected(double* sum) {
  if (!adjusts_ || !has_logits() || temperature_ != rows_.temperature) return false;
  adjustment_.touched(&scratch_.touched);
  for (const int32_t id : scratch_.touched)
    if (static_cast<size_t>(id) >= size()) return false;
  double before = 0.0, after = 0.0;
  for (const int32_t id : scratch_.touched) {
    const double value = static_cast<double>(logits()[id]);
    const double old = value / temperature_ - logsumexp();
    const double now = adjustment_.one(value, id) / temperature_ - logsumexp();
    if (!(old < kMostExponent) || !(now < kMostExponent)) return false;
    before += portable_exp(old);
    after += portable_exp(now);
  }
  *sum = 1.0 - before + after;
  return true;
}

}  // namespace edgedec::engine
