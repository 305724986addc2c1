// The steps of one head, shared by the rows.
//
// Columns of a state do not depend on each other. So a strip of columns goes through all steps of a piece while it stays
// in the first-level cache. A step and the first half of the next one share a sweep over the strip: the decayed state
// is what lies in memory between them.
#pragma once

#include "gated_delta/ingredients.h"

namespace edgedec::gated_delta {
namespace {

// A strip of a state: row i begins at at[i * stride]; null: there is none.
struct Strip {
  float* at;
  size_t stride;
};

// What a sweep computes for the next step: its decayed state, and m.
struct Next {
  float decay;
  const float* k;
  Strip to;
  float* m;
};

// The first half of a step that does not follow the one before.
template <class V, int N>
void begin(size_t k_dim, const Strip& from, const Next& next) {
  V m[N];
  const V decay = V::broadcast(next.decay);
#pragma GCC unroll 4
  for (int c = 0; c < N; ++c) m[c] = V::broadcast(0.0f);
  for (size_t i = 0; i < k_dim; ++i) {
    const V k = V::broadcast(next.k[i]);
#pragma GCC unroll 4
    for (int c = 0; c < N; ++c) {
      const V s = V::mul(decay, V::load(from.at + i * from.stride + c * kLanes));
      m[c] = V::fma(s, k, m[c]);
      s.store(next.to.at + i * next.to.stride + c * kLanes);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < N; ++c) m[c].store(next.m + c * kLanes);
}

// The second half of a step on the decayed state `from`, with output (q, out), with a kept state, and with the first
// half of the next step.
template <class V, int N, bool Out, bool Keep, bool More>
void finish(size_t k_dim, const Strip& from, const float* k, const float* d, const float* q, float* out,
            const Strip& keep, const Next& next) {
  V o[N], m[N], delta[N];
  const V decay = V::broadcast(next.decay);
#pragma GCC unroll 4
  for (int c = 0; c < N; ++c) {
    o[c] = m[c] = V::broadcast(0.0f);
    delta[c] = V::load(d + c * kLanes);
  }
  for (size_t i = 0; i < k_dim; ++i) {
    const V key = V::broadcast(k[i]);
#pragma GCC unroll 4
    for (int c = 0; c < N; ++c) {
      V s = V::fma(key, delta[c], V::load(from.at + i * from.stride + c * kLanes));
      if constexpr (Out) o[c] = V::fma(s, V::broadcast(q[i]), o[c]);
      if constexpr (Keep) s.store(keep.at + i * keep.stride + c * kLanes);
      if constexpr (More) {
        s = V::mul(decay, s);
        m[c] = V::fma(s, V::broadcast(next.k[i]), m[c]);
        s.store(next.to.at + i * next.to.stride + c * kLanes);
      }
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < N; ++c) {
    if constexpr (Out) o[c].store(out + c * kLanes);
    if constexpr (More) m[c].store(next.m + c * kLanes);
  }
}

template <class V, int N>
void finish_any(size_t k_dim, const Strip& from, const float* k, const float* d, const float* q, float* out,
                const Strip& keep, const Next& next) {
  using Fn = void (*)(size_t, const Strip&, const float*, const float*, const float*, float*, const Strip&, const Next&);
  static constexpr Fn all[] = {
      finish<V, N, false, false, false>, finish<V, N, false, false, true>, finish<V, N, false, true, false>,
      finish<V, N, false, true, true>,   finish<V, N, true, false, false>, finish<V, N, true, false, true>,
      finish<V, N, true, true, false>,   finish<V, N, true, true, true>};
  const int which = (out != nullptr) * 4 + (keep.at != nullptr) * 2 + (next.to.at != nullptr);
  all[which](k_dim, from, k, d, q, out, keep, next);
}

// The strip of columns [column, column + 16 N) through the steps of a piece.
template <class V, int N>
void strip(const Config& config, const Piece& piece, const Ingredients& have, float* state, float* copies, float* out,
           size_t column) {
  constexpr size_t kWidth = N * kLanes;
  const size_t k_dim = config.k_dim, v_dim = config.v_dim;
  float m[kWidth], d[kWidth];
  const auto place = [&](int32_t which) -> Strip {
    if (which == recurrent::kState) return {state + column, v_dim};
    return {copies + static_cast<size_t>(which + 1) * k_dim * kWidth, kWidth};  // the first one is of no step
  };
  // Where step i finds its decayed state.
  const auto work = [&](size_t i) { return i < piece.committed ? place(recurrent::kState) : Strip{copies, kWidth}; };
  const auto half = [&](size_t i) { return Next{have.decay[i], have.k + i * k_dim, work(i), m}; };
  for (size_t i = 0; i < piece.count; ++i) {
    const recurrent::Step& step = piece.steps[i];
    if (i == 0 || !step.follows) begin<V, N>(k_dim, place(i == 0 ? recurrent::kState : step.from), half(i));
    const V beta = V::broadcast(have.beta[i]);
    for (size_t c = 0; c < kWidth; c += kLanes)
      V::mul(beta, V::sub(V::load(have.v + i * v_dim + column + c), V::load(m + c))).store(d + c);
    const bool last = i + 1 == piece.count, followed = !last && piece.steps[i + 1].follows;
    const int32_t keep = last && i < piece.committed ? recurrent::kState : step.keep;
    float* to = step.token < 0 ? nullptr : out + static_cast<size_t>(step.token) * config.values() + column;
    finish_any<V, N>(k_dim, work(i), have.k + i * k_dim, d, have.q + i * k_dim, to,
                     keep == recurrent::kNone ? Strip{} : place(keep), followed ? half(i + 1) : Next{});
  }
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
  constexpr int N = kStripVectors;
  Ingredients have = lay_out(config, room);
  transpose_conv(config, weights.conv, head, have.conv);
  out += head * config.v_dim;
  for (size_t done = 0; done < walk.count;) {
    const Piece piece = piece_at(walk, done);
    find_ingredients<V>(config, weights, piece, head, &have);
    size_t column = 0;
    for (; column + N * kLanes <= config.v_dim; column += N * kLanes)
      strip<V, N>(config, piece, have, state, have.copies, out, column);
    for (; column < config.v_dim; column += kLanes) strip<V, 1>(config, piece, have, state, have.copies, out, column);
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
  return {name, head<V>};
}

}  // namespace
}  // namespace edgedec::gated_delta
