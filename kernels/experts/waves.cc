#include "experts/waves.h"

#include <algorithm>

namespace edgedec::experts {
namespace {

// Two waves are held at a time, so each gets half of the slots; one that is alone may have all.
int most_experts(const Routing& routing, const Weights& weights) {
  if (!weights.store) return routing.experts;
  return static_cast<int>(std::min<size_t>(weights.store->slots(), static_cast<size_t>(routing.experts)));
}

}  // namespace

Waves::Waves(Parallel& threads, const Routing& routing, const Weights& weights, Chosen* chosen, int m, int pairs_at_once)
    : threads_(threads), routing_(routing), weights_(weights), chosen_(chosen), m_(m), most_pairs_(pairs_at_once),
      most_experts_(most_experts(routing, weights)) {
  const auto all = static_cast<size_t>(routing.experts), pairs = static_cast<size_t>(m) * static_cast<size_t>(routing.chosen);
  counts_ = scratch<int>(Scratch::kPairs, 7 * all + 1 + pairs);
  data_ = scratch<const uint8_t*>(Scratch::kPlaces, all);
  if (!data_) counts_ = nullptr;
  if (!counts_) return;
  numbers_ = counts_ + all;
  for (Held* held : {&now_, &ahead_}) held->expert = numbers_ + all * (held == &now_ ? 1 : 3), held->slot = held->expert + all;
  first_pair_ = numbers_ + 5 * all;
  token_ = first_pair_ + all + 1;
  std::fill(counts_, counts_ + all, 0);
  for (size_t i = 0; i < pairs; ++i) ++counts_[chosen[i].expert];
  int active = 0;
  for (size_t e = 0; e < all; ++e) active += counts_[e] > 0;
  half_ = active <= most_experts_ ? active : std::max(1, most_experts_ / 2);
}

Waves::~Waves() {
  if (!counts_ || !weights_.store) return;
  release(now_);
  release(ahead_);
}

// The experts of the wave from `begin` on, in ascending order. One with more pairs than fit is alone.
Waves::Held Waves::plan(int begin, int half) const {
  Held held;
  held.begin = held.end = begin;
  held.expert = ahead_.expert, held.slot = ahead_.slot;
  for (int pairs = 0; held.end < routing_.experts; ++held.end) {
    const int n = counts_[held.end];
    if (n == 0) continue;
    if (held.count == half || (pairs > 0 && pairs + n > most_pairs_)) break;
    held.expert[held.count++] = held.end;
    pairs += n;
  }
  return held;
}

bool Waves::hold(Held* held) {
  if (!weights_.store || held->count == 0) return true;
  if (weights_.store->hold(weights_.first, held->expert, held->count, held->slot)) return true;
  held->count = 0;
  error_ = kTooFewSlots;
  return false;
}

void Waves::release(const Held& held) {
  if (weights_.store && held.count) weights_.store->release(held.slot, held.count);
}

const Wave* Waves::next() {
  if (error_) return nullptr;
  const bool first = now_.end == 0;
  if (first) {
    ahead_ = plan(0, half_);
    if (!hold(&ahead_)) return nullptr;
  } else {
    release(now_);
    now_.count = 0;
  }
  if (ahead_.count == 0) return nullptr;
  std::swap(now_, ahead_);
  ahead_.count = 0;
  const Held following = plan(now_.end, half_);
  ahead_ = following;
  if (!hold(&ahead_)) return nullptr;
  number_pairs();
  done_ = 0;
  wave_ = {chosen_, now_.begin, now_.end, now_.count, now_.expert, first_pair_, token_, data_};
  return &wave_;
}

void Waves::number_pairs() {
  int pairs = 0;
  for (int i = 0; i < now_.count; ++i) {
    first_pair_[i] = numbers_[now_.expert[i]] = pairs;
    pairs += counts_[now_.expert[i]];
  }
  first_pair_[now_.count] = pairs;
  const int all = m_ * routing_.chosen;
  for (int i = 0; i < all; ++i) {
    const int e = chosen_[i].expert;
    if (e < now_.begin || e >= now_.end) continue;
    chosen_[i].pair = numbers_[e]++;
    token_[chosen_[i].pair] = i / routing_.chosen;
  }
}

// Other threads sleep while this one waits for the disk: reads need a core too, and batteries last.
const uint8_t* Waves::wait(int slot) {
  const bool there = weights_.store->ready(slot);
  if (!there) threads_.pause(true);
  const uint8_t* expert = weights_.store->wait(slot, &error_);
  if (!there) threads_.pause(false);
  return expert;
}

bool Waves::next_batch(Batch* batch) {
  if (error_ || done_ == now_.count) return false;
  batch->begin = done_;
  if (!weights_.store) {
    for (; done_ < now_.count; ++done_) data_[done_] = weights_.data + weights_.shapes.stride * static_cast<size_t>(now_.expert[done_]);
  } else {
    do {
      data_[done_] = wait(now_.slot[done_]);
      if (!data_[done_]) return false;
    } while (++done_ < now_.count && weights_.store->ready(now_.slot[done_]));
  }
  batch->end = done_;
  return true;
}

}  // namespace edgedec::experts
