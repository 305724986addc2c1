// The steps of one head, shared by the rows.
//
// Columns of a state do not depend on each other. So a strip of columns goes through all steps of a piece while it stays
// in the first-level cache. The sweep that updates the state of a step also sums up what the next step reads of it.
#pragma once

#include "gated_delta/ingredients.h"

namespace edgedec::gated_delta {
namespace {

// Vectors of a strip: as many as there are registers for.
constexpr int kRow = 8;  // a whole row of most models' states, which is read as it lies in memory
template <class V>
constexpr int kStrip = V::kAccumulators >= 12 ? kRow : 2;

// A strip of a state: row i begins at at[i * stride].
struct Strip {
  float* at;
  size_t stride;
};

// A step's reading of its parent's state: sums over the rows times k, and times q where it has an output.
struct Reading {
  const float *k, *q;
  float *by_k, *by_q;
};

// N vectors of sums, to which rows are added.
template <class V, int N, bool Out>
struct Sums {
  V by_k[N], by_q[N];

  EDGEDEC_INLINE Sums() {
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) by_k[c] = by_q[c] = V::broadcast(0.0f);
  }
  EDGEDEC_INLINE void add(int c, const V& s, const V& k, const V& q) {
    by_k[c] = V::fma(s, k, by_k[c]);
    if constexpr (Out) by_q[c] = V::fma(s, q, by_q[c]);
  }
  EDGEDEC_INLINE void store(const Reading& to) const {
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) {
      by_k[c].store(to.by_k + c * kLanes);
      if constexpr (Out) by_q[c].store(to.by_q + c * kLanes);
    }
  }
};

template <class V, int N, bool Out>
void read(size_t k_dim, const Strip& from, const Reading& to) {
  Sums<V, N, Out> sums;
  for (size_t i = 0; i < k_dim; ++i) {
    const V k = V::broadcast(to.k[i]), q = V::broadcast(Out ? to.q[i] : 0.0f);
    // The next strip, which the hardware's prefetchers do not foresee; harmless past the end.
    for (int c = 0; c < N && N < kRow; ++c) __builtin_prefetch(from.at + i * from.stride + (N + c) * kLanes);
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) sums.add(c, V::load(from.at + i * from.stride + c * kLanes), k, q);
  }
  sums.store(to);
}

// The new state of a step. With More the next step reads it, with Out for an output, too.
template <class V, int N, bool More, bool Out>
void update(size_t k_dim, const Strip& from, float decay, const float* k, const float* d, const Strip& to,
            const Reading& next) {
  Sums<V, N, Out> sums;
  V delta[N];
  const V e = V::broadcast(decay);
#pragma GCC unroll 8
  for (int c = 0; c < N; ++c) delta[c] = V::load(d + c * kLanes);
  for (size_t i = 0; i < k_dim; ++i) {
    const V key = V::broadcast(k[i]);  // all three before a store, which they might overlap for all the compiler knows
    const V next_k = V::broadcast(More ? next.k[i] : 0.0f), next_q = V::broadcast(Out ? next.q[i] : 0.0f);
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) {
      const V s = V::fma(key, delta[c], V::mul(e, V::load(from.at + i * from.stride + c * kLanes)));
      s.store(to.at + i * to.stride + c * kLanes);
      if constexpr (More) sums.add(c, s, next_k, next_q);
    }
  }
  if constexpr (More) sums.store(next);
}

// The strip of columns [column, column + 16 N) through the steps of a piece.
template <class V, int N>
struct StripWalk {
  static constexpr size_t kWidth = N * kLanes;
  const Config& config;
  const Piece& piece;
  const Ingredients& have;
  float *state, *out;
  size_t column;
  float by_k[kWidth], by_q[kWidth], d[kWidth];

  Strip whole_state() const { return {state + column, config.v_dim}; }
  Strip copy(int32_t which) const {  // the first one is the work space of steps that none but the next one reads
    return {have.copies + static_cast<size_t>(which + 1) * config.k_dim * kWidth, kWidth};
  }
  // Where the state of step i goes. A dense strip is faster than the state's own rows: those share few sets of a cache.
  Strip place(size_t i) const {
    if (i + 1 == piece.committed) return whole_state();
    return i < piece.committed || piece.steps[i].keep == recurrent::kNone ? copy(-1) : copy(piece.steps[i].keep);
  }
  Strip parent(size_t i) const {
    if (i > 0 && piece.steps[i].follows) return place(i - 1);
    return i == 0 || piece.steps[i].from == recurrent::kState ? whole_state() : copy(piece.steps[i].from);
  }
  Reading reading(size_t i) { return {have.k + i * config.k_dim, have.q + i * config.k_dim, by_k, by_q}; }
  bool has_out(size_t i) const { return piece.steps[i].token >= 0; }

  // d and the output of step i, from the sums.
  void apply(size_t i) {
    const V e = V::broadcast(have.decay[i]), beta = V::broadcast(have.beta[i]), kq = V::broadcast(have.kq[i]);
    float* to = has_out(i) ? out + static_cast<size_t>(piece.steps[i].token) * config.values() + column : nullptr;
    for (size_t c = 0; c < kWidth; c += kLanes) {
      const V m = V::mul(e, V::load(by_k + c));
      const V delta = V::mul(beta, V::sub(V::load(have.v + i * config.v_dim + column + c), m));
      delta.store(d + c);
      if (to) V::fma(kq, delta, V::mul(e, V::load(by_q + c))).store(to + c);
    }
  }

  void run() {
    for (size_t i = 0; i < piece.count; ++i) {
      const Strip from = parent(i);
      if (i == 0 || !piece.steps[i].follows)
        (has_out(i) ? read<V, N, true> : read<V, N, false>)(config.k_dim, from, reading(i));
      apply(i);
      if (piece.steps[i].leaf) continue;
      const bool more = i + 1 < piece.count && piece.steps[i + 1].follows;
      const auto how = !more ? update<V, N, false, false> : has_out(i + 1) ? update<V, N, true, true> : update<V, N, true, false>;
      how(config.k_dim, from, have.decay[i], have.k + i * config.k_dim, d, place(i), more ? reading(i + 1) : Reading{});
    }
  }
};

// All strips of N vectors from a column on that the head has; returns the column behind them.
template <class V, int N>
size_t strips(const Config& config, const Piece& piece, const Ingredients& have, float* state, float* out, size_t column) {
  for (; column + N * kLanes <= config.v_dim; column += N * kLanes)
    StripWalk<V, N>{config, piece, have, state, out, column, {}, {}, {}}.run();
  return column;
}

template <class V>
void norm_out(const Config& config, const float* weight, const float* z, float* out) {
  const V factor = inverse_rms<V>(out, config.v_dim, config.epsilon);
  for (size_t j = 0; j < config.v_dim; j += kLanes) {
    const V normed = V::mul(V::mul(V::load(out + j), factor), V::load(weight + j));
    V::mul(normed, silu(V::load(z + j))).store(out + j);
  }
}

template <class V>
void head(const Config& config, const Weights& weights, const recurrent::Sequence& one, const recurrent::Walk& walk,
          size_t head, float* state, float* out, float* room) {
  Ingredients have = lay_out(config, room);
  transpose_conv(config, weights.conv, head, have.conv);
  out += head * config.v_dim;
  for (size_t done = 0; done < walk.count;) {
    const Piece piece = piece_at(walk, done);
    find_ingredients<V>(config, weights, piece, head, &have);
    size_t column = strips<V, kStrip<V>>(config, piece, have, state, out, 0);
    column = strips<V, 2>(config, piece, have, state, out, column);
    strips<V, 1>(config, piece, have, state, out, column);
    for (size_t i = 0; i < piece.count; ++i) {
      const int32_t m = piece.steps[i].token;
      if (m < 0) continue;
      const float* z = one.tokens_at + static_cast<size_t>(m) * one.token_row + config.channels();
      norm_out<V>(config, weights.norm, z + head * config.v_dim, out + static_cast<size_t>(m) * config.values());
    }
    done += piece.count;
  }
}

template <class V>
constexpr Row make_row(const char* name) {
  return {name, head<V>, kStrip<V> * kLanes};
}

}  // namespace
}  // namespace edgedec::gated_delta
