// The second step of attention: scores become weights, in place.
#pragma once

#include "simd/math16.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {
namespace {

// The greatest scores that queries of a block have so far.
struct Tops {
  alignas(64) float lanes[kMostQueries * kLanes];

  Tops() {
    for (float& lane : lanes) lane = -__builtin_inff();
  }

  // With n more scores of the queries from q on; caps them before.
  template <class V>
  EDGEDEC_INLINE void raise(float softcap, size_t q, size_t count, float* const* scores, size_t n) {
    for (size_t i = 0; i < count; ++i) {
      if (softcap > 0.0f) softcap_all<V>(scores[i], n, softcap);
      float* mine = lanes + (q + i) * kLanes;
      V top = V::load(mine);
      size_t j = 0;
      for (; j + kLanes <= n; j += kLanes) top = V::max(top, V::load(scores[i] + j));
      top.store(mine);
      for (; j < n; ++j) *mine = *mine > scores[i][j] ? *mine : scores[i][j];
    }
  }
  // That of query q. A sink, unless null, is one more score.
  template <class V>
  EDGEDEC_INLINE float of(size_t q, const float* sink) const {
    const float top = V::reduce_max(V::load(lanes + q * kLanes));
    return sink ? (top > *sink ? top : *sink) : top;
  }
};

// Scores up to the next multiple of sixteen, for which there is room, whose exponential is 0.
EDGEDEC_INLINE void pad(float* scores, size_t n) {
  for (size_t j = n; j % kLanes; ++j) scores[j] = -__builtin_inff();
}

// N vectors of scores become weights, which are added to the sums by lane.
template <int N, class V>
EDGEDEC_INLINE V exponentials_of(float* scores, V most, V sums) {
  V p[N];
  for (int i = 0; i < N; ++i) p[i] = V::sub(V::load(scores + i * kLanes), most);
  exp_below<N>(p);
  for (int i = 0; i < N; ++i) {
    p[i].store(scores + i * kLanes);
    sums = V::add(sums, p[i]);
  }
  return sums;
}

// Scores j .. end - 1 become exp(score - top); j is a multiple of sixteen, and so is `end` where scores go on. Returns the sums
// by lane with theirs.
template <class V>
EDGEDEC_INLINE V exponentials(float* scores, size_t j, size_t end, float top, V sums) {
  constexpr int kAtOnce = V::kTile < 24 ? 1 : 4;  // that registers have room for
  const V most = V::broadcast(top);
  for (; j + kAtOnce * kLanes <= end; j += kAtOnce * kLanes) sums = exponentials_of<kAtOnce>(scores + j, most, sums);
  for (; j < end; j += kLanes) sums = exponentials_of<1>(scores + j, most, sums);
  return sums;
}

// The sum of all lanes, and of the weight of a sink.
template <class V>
EDGEDEC_INLINE float sum_of(V sums, const float* sink, float top) {
  if (!sink) return V::reduce_add(sums);
  float of_sink[kLanes];
  exp(V::sub(V::broadcast(*sink), V::broadcast(top))).store(of_sink);
  return V::reduce_add(sums) + of_sink[0];
}

// Scores of a block that become weights little by little: those of a long context are then read once for weights and values.
template <class V>
class Weighing {
 public:
  Weighing(const Block& b, const Tops& tops) : b_(b) {
    for (size_t q = 0, t = 0; t < b.tokens; ++t)
      for (size_t h = 0; h < b.heads(); ++h, ++q) {
        tops_[q] = tops.of<V>(q, b.sinks ? b.sinks + h : nullptr);
        V::broadcast(0.0f).store(sums_ + q * kLanes);
        pad(b.scores + q * b.stride, length_of(t));
      }
  }

  // Weighs the scores of path indices below i, and at most fifteen more. Where a token has no others, its weights are summed up.
  void until(size_t i) {
    for (size_t t = 0, q = 0; t < b_.tokens; ++t) {
      const size_t first = b_.paths[t].first, n = length_of(t), from = done_[t];
      if (from == kSummed || i <= first) {
        q += b_.heads();
        continue;
      }
      const size_t end = i - first < n ? (i - first + kLanes - 1) / kLanes * kLanes : n;
      for (size_t h = 0; h < b_.heads(); ++h, ++q) {
        float* sums = sums_ + q * kLanes;
        const V with = exponentials<V>(b_.scores + q * b_.stride, from, end, tops_[q], V::load(sums));
        if (end >= n)
          b_.sums[q] = sum_of<V>(with, b_.sinks ? b_.sinks + h : nullptr, tops_[q]);
        else
          with.store(sums);
      }
      done_[t] = end >= n ? kSummed : end;
    }
  }

 private:
  static constexpr size_t kSummed = SIZE_MAX;

  size_t length_of(size_t t) const { return b_.paths[t].end - b_.paths[t].first; }

  const Block& b_;
  float tops_[kMostQueries];
  size_t done_[kMostQueries] = {};
  alignas(64) float sums_[kMostQueries * kLanes];
};

}  // namespace
}  // namespace edgedec::tree_attention
