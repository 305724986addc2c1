// GatedDelta: the recurrence of a Gated DeltaNet layer for T tokens that form a tree below the tokens of a sequence.
//
// recurrent/steps.h says which tokens a pass commits to the state and which it only tries, and what it leaves. Per step
// and value head h, which reads key head h / (Hv / Hk), or h mod Hk where heads are tiled; S[dk][dv] is the head's state:
//
//   convolve x[c]    = sum over the taps of w[c][tap] row[c]    from 0, ascending, one fused multiply-add each; the last
//                                                               tap meets the token's own row
//            q, k, v = silu(x)
//            q, k    = x (1 / sqrt(sum of squares + 1e-6))      sixteen lanes, fused, folded 16 -> 8 -> 4 -> 2 -> 1
//            q       = q (1 / sqrt(dk))
//   gate     beta    = 1 / (1 + e^-b)
//            e       = e^(decay softplus(a + dt_bias))          softplus(x) = max(0, x) + float(log(1 + e^-|x|)), the log
//                                                               in double
//   step     m[j]    = e (sum over i of S[i][j] k[i])          from 0, ascending, one fused multiply-add each
//            d[j]    = beta (v[j] - m[j])
//            o[j]    = (k q) d[j] + e (sum over i of S[i][j] q[i])   as m; k q in sixteen lanes, folded; the last
//                                                               operation fused
//            S[i][j] = k[i] d[j] + e S[i][j]                    fused, after e S[i][j] was rounded
//   norm     out[j]  = ((o[j] f) weight[j]) silu(z[j])          f = 1 / sqrt(mean of o^2 + epsilon), as in RMSNorm
//
// The output is that of the new state, o = q S: it needs no second walk through the state.
//
// So an output, and the state after n tokens, depend on the tokens before them only: not on how these were cut into
// passes, on siblings, pieces or threads, nor on the instruction set. Source: Yang et al., "Gated Delta Networks" (2024).
#pragma once

#include "common/parallel.h"
#include "recurrent/steps.h"

namespace edgedec::gated_delta {

struct Config {
  size_t k_heads, v_heads;  // v_heads is a multiple of k_heads
  size_t k_dim, v_dim;      // of a head; multiples of 16
  size_t taps;              // of the convolution
  float epsilon;            // of the norm
  bool tiled;               // value head h reads key head h mod k_heads

  size_t keys() const { return k_heads * k_dim; }
  size_t values() const { return v_heads * v_dim; }
  size_t channels() const { return 2 * keys() + values(); }   // of the convolution: q, k, v
  size_t trail_row() const { return channels() + 2 * v_heads; }   // those, then b, then a
  size_t token_row() const { return trail_row() + values(); }     // q, k, v, then z, then b, then a
  size_t state() const { return v_heads * k_dim * v_dim; }
};

struct Weights {
  const float* conv;     // [channels][taps]
  const float *decay, *dt_bias;  // [v_heads]
  const float* norm;     // [v_dim]
};

// Steps of one value head, from state[k_dim][v_dim] to out[tokens][values]; room: floats of room_of().
using HeadFn = void (*)(const Config& config, const Weights& weights, const recurrent::Sequence& one,
                        const recurrent::Walk& walk, size_t head, float* state, float* out, float* room);

struct Row {
  const char* name;
  HeadFn head;
  size_t columns;  // of a state that it takes together, at most
};

// The row of that name, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

// Floats of scratch that one head needs.
size_t room_of(const Row& row, const Config& config, size_t copies);

// A sequence, its state [v_heads][k_dim][v_dim], and its outputs [tokens][values].
struct Job {
  recurrent::Sequence one;
  float *state, *out;
};

// Computes sequences that have no problem. Heads are shared out over threads.
void run(const Row& row, Parallel& threads, const Config& config, const Weights& weights, const Job* jobs, size_t count);

// The error in the sizes, in one line, or nullptr.
const char* problem(const Config& config);

}  // namespace edgedec::gated_delta
