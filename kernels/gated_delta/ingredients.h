// Ingredients of the steps of a head, for each token: q, k, v, k q, beta and the decay.
#pragma once

#include "gated_delta/gated_delta.h"
#include "recurrent/convolve.h"
#include "simd/math16.h"
#include "simd/math64.h"
#include "simd/norm16.h"

namespace edgedec::gated_delta {
namespace {

constexpr size_t kMostSteps = 2 * recurrent::kPiece;  // of a piece

// Steps that a head takes together: `committed` ones first.
struct Piece {
  const recurrent::Step* steps;
  size_t count, committed;
};

inline Piece piece_at(const recurrent::Walk& walk, size_t done) {
  const size_t left = done < walk.committed ? walk.committed - done : 0;
  if (left > recurrent::kPiece) return {walk.steps + done, recurrent::kPiece, recurrent::kPiece};
  return {walk.steps + done, walk.count - done, left};
}

// Arrays in a head's scratch, and the weights of its convolution as [taps][of q, k and v].
struct Ingredients {
  float *q, *k, *v, *beta, *decay, *kq, *conv, *copies;  // by step; copies: strips of states
};

inline size_t ingredient_floats(const Config& config) {
  const size_t head = 2 * config.k_dim + config.v_dim;
  return kMostSteps * (head + 3) + config.taps * head;
}

inline Ingredients lay_out(const Config& config, float* room) {
  Ingredients have;
  have.q = room;
  have.k = have.q + kMostSteps * config.k_dim;
  have.v = have.k + kMostSteps * config.k_dim;
  have.beta = have.v + kMostSteps * config.v_dim;
  have.decay = have.beta + kMostSteps;
  have.kq = have.decay + kMostSteps;
  have.conv = have.kq + kMostSteps;
  have.copies = have.conv + config.taps * (2 * config.k_dim + config.v_dim);
  return have;
}

// The key head of a value head.
inline size_t key_head(const Config& config, size_t head) {
  return config.tiled ? head % config.k_heads : head / (config.v_heads / config.k_heads);
}

// Where a head's part of q, k or v begins among the channels, and its length.
struct Part {
  size_t first, size;
};

inline Part part_of(const Config& config, size_t head, int which) {
  const size_t keys = config.keys(), key = key_head(config, head) * config.k_dim;
  if (which == 2) return {2 * keys + head * config.v_dim, config.v_dim};
  return {static_cast<size_t>(which) * keys + key, config.k_dim};
}

inline void transpose_conv(const Config& config, const float* conv, size_t head, float* to) {
  for (int which = 0; which < 3; ++which) {
    const Part part = part_of(config, head, which);
    recurrent::transpose(conv + part.first * config.taps, part.size, config.taps, to);
    to += part.size * config.taps;
  }
}

// x -> x / |x|, times scale.
template <class V>
EDGEDEC_INLINE void normalise(float* x, size_t d, const V* scale) {
  V sum = V::broadcast(0.0f);
  for (size_t i = 0; i < d; i += kLanes) sum = V::fma(V::load(x + i), V::load(x + i), sum);
  const V squares = V::add(V::broadcast(V::reduce_add(sum)), V::broadcast(1e-6f));
  const V factor = V::div(V::broadcast(1.0f), V::sqrt(squares));
  for (size_t i = 0; i < d; i += kLanes) {
    const V y = V::mul(V::load(x + i), factor);
    (scale ? V::mul(y, *scale) : y).store(x + i);
  }
}

template <class V>
EDGEDEC_INLINE float product(const float* x, const float* y, size_t d) {
  V sum = V::broadcast(0.0f);
  for (size_t i = 0; i < d; i += kLanes) sum = V::fma(V::load(x + i), V::load(y + i), sum);
  return V::reduce_add(sum);
}

// log(1 + t) for 0 <= t <= 1, of the first n lanes; the others are left.
template <class V>
EDGEDEC_INLINE V log_one_plus(V t, size_t n) {
  float lane[kLanes];
  t.store(lane);
  for (size_t i = 0; i < n; ++i) lane[i] = static_cast<float>(log_exact(1.0 + static_cast<double>(lane[i])));
  return V::load(lane);
}

// b -> beta, a -> decay, in place.
template <class V>
void gate(const Weights& weights, size_t head, size_t count, float* b, float* a) {
  const V one = V::broadcast(1.0f), zero = V::broadcast(0.0f);
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t n = count - i < kLanes ? count - i : kLanes;
    const V x = V::add(V::load_partial(a + i, n), V::broadcast(weights.dt_bias[head]));
    const V rest = log_one_plus(exp(V::sub(zero, V::abs(x))), n);
    const V softplus = V::add(V::max(zero, x), rest);  // in this order a NaN stays one
    exp(V::mul(V::broadcast(weights.decay[head]), softplus)).store_partial(a + i, n);
    V::div(one, V::add(one, exp(V::sub(zero, V::load_partial(b + i, n))))).store_partial(b + i, n);
  }
}

template <class V>
void find_ingredients(const Config& config, const Weights& weights, const Piece& piece, size_t head, Ingredients* have) {
  const V scale = V::div(V::broadcast(1.0f), V::sqrt(V::broadcast(static_cast<float>(config.k_dim))));
  float* const to[] = {have->q, have->k, have->v};
  for (size_t i = 0; i < piece.count; ++i) {
    const recurrent::Step& step = piece.steps[i];
    const float* conv = have->conv;
    for (int which = 0; which < 3; ++which) {
      const Part part = part_of(config, head, which);
      const bool wanted = which > 0 || step.token >= 0;  // a token of the trail has no output
      float* x = to[which] + i * part.size;
      if (wanted) recurrent::convolve<V>(step.rows, part.first, part.size, conv, config.taps, [&](size_t c, V y) {
        silu(y).store(x + c);
      });
      if (wanted && which < 2) normalise<V>(x, part.size, which == 0 ? &scale : nullptr);
      conv += config.taps * part.size;
    }
    if (step.token >= 0) have->kq[i] = product<V>(have->k + i * config.k_dim, have->q + i * config.k_dim, config.k_dim);
    const float* row = step.rows[config.taps - 1] + (step.token < 0 ? config.channels() : config.channels() + config.values());
    have->beta[i] = row[head];
    have->decay[i] = row[config.v_heads + head];
  }
  gate<V>(weights, head, piece.count, have->beta, have->decay);
}

}  // namespace
}  // namespace edgedec::gated_delta
