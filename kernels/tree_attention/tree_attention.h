// TreeAttention: rotary attention over a key/value cache for T tokens that form a tree below the resident tokens.
//
// Token m has parent parents[m] in [-1, m); -1 means the last resident token. Its path is the resident slots
// 0 .. length - 1, then its ancestors, then itself; the index in the path is the position. Token m is stored in cache
// slot length + m, and slot s in row s of the cache; in a ring of R rows, which a window allows, in row s mod R. Per
// token and head, over the keys that take part (with a window w, the last w of the path):
//
//   prepare  q, k   = head norm (RMSNorm of the head times weight; only where weights are given)
//            v      = RMSNorm of the head, without a weight, only with value_norm
//            (a, b) -> (a cos - b sin, a sin + b cos)    plain operations on pairs (i, i + d/2),
//                                                        or (2i, 2i + 1) interleaved
//            q      = q * scale; k and v are rounded into their slot: to fp16, or to int8 as below
//   attend   s[j]   = <q, k[j]>                          sixteen lanes over d, fused, folded 16 -> 8 -> 4 -> 2 -> 1
//            s[j]   = softcap tanh(s[j] / softcap)        only with a softcap
//            p[j]   = exp(s[j] - max s)
//            sum    = sum of p                           lane j mod 16, j counted from the first key that takes part
//            with sinks (a logit z of each head): max s is over z too, and sum = sum + exp(z - max s), the last of all
//            out[i] = (sum over j of p[j] v[j][i]) / sum  ascending j, one fused multiply-add each, one division
//   look     a[s]   = max of p[j] / sum                  of slot s: over all tokens, and heads that read its kv head;
//                                                        only on request
//
// A layer with shared keys has queries only: it prepares those, and attends to the keys and values that an earlier
// layer has written for the same tokens.
//
// With keys and values in int8 products are integers, which every row sums exactly (byte_products.h):
//
//   mix      x      = H x f                              of each 32 elements of q, k, v, or the 16 that end a head: a Hadamard
//                                                        transform without its factor, pairs (i, i + n/2) first, then n/4
//                                                        and so on, a + b and a - b; f is 1/8 for 32 elements of q, else 1/4
//   prepare  a      = the least fp16 number with max |x| <= 127 a    for each 32 elements of k, and each 64 of v; NaN where an
//            x      = int8(x / a)                        x is not finite or a too great, 0 below max |x| = 2^-26; half to
//                                                        even, 0 where a is 0 or NaN
//            b      = max |q| / 127                      for each 32 elements; 0 where it is subnormal; q = int8(q / b)
//   attend   s[j]   = sum over g of sum_g (a[j] b)       group g of 32 ascending, one fused multiply-add each, from 0;
//                                                        sum_g is the integer <q, k[j]> of the group
//            p[j]   as above; for each 64 indices of the path (0 .. 63, ...) and each 64 elements of v:
//            w[j]   = p[j] a[j]; m = max of w            indices that a token does not see have 0; NaN where one is NaN
//            u[j]   = int(w[j] (127 / m)), f = m / 127   half to even; all 0 and f = 0 below m = 2^-100
//            out[i] = sum over blocks of sum_i f         ascending, one fused multiply-add each, from 0; sum_i is the integer
//                                                        sum of u[j] v[j][i] of a block
//            out[i] = out[i] / sum, and mixed as q is
//
// Mixing spreads the few great elements that keys have over their group, so that 8 bits do for q, and 7 for weights.
// Sources: Ashkboos et al., "QuaRot" (2024); Zhang et al., "SageAttention" (2024).
//
// So an output depends on its path only: not on slots, siblings, the number of tokens, blocks or threads, nor on the
// instruction set. Sources: Vaswani et al. (2017); Ainslie et al., "GQA" (2023); tree masks: Miao et al., "SpecInfer".
#pragma once

#include <cstddef>
#include <cstdint>

#include "byte_products/byte_products.h"
#include "common/parallel.h"

namespace edgedec::tree_attention {

struct Config {
  size_t heads, kv_heads;  // heads is a multiple of kv_heads; query head h reads kv head h / (heads / kv_heads)
  size_t dim;              // of a head; a multiple of 16
  float scale;
  size_t window;           // 0: none
  bool interleaved;
  float epsilon;           // of the head norms
  float softcap;           // 0: none
  bool ring;               // the cache keeps only the newest slots
  bool value_norm;
  bool shared;             // qkv has queries only; an earlier layer has written the keys and values

  size_t qkv_heads() const { return heads + (shared ? 0 : 2 * kv_heads); }
};

// Keys and values of one layer: slot s of kv head h is at h * head_stride + s % capacity * row. A row has dim fp16
// numbers, or dim int8 numbers and then room for an fp16 scale for every 32, of which a value uses half. Sizes are in units of
// two bytes.
struct Cache {
  uint16_t *keys, *values;
  size_t capacity, head_stride, row;
  bool int8;
};

// Describes the layer that begins at `first` in a cache [L, 2, Hkv, capacity, row]. Returns false when `row` is neither
// the size of fp16 keys (dim) nor of int8 keys (dim / 2 + ceil(dim / 32)).
bool lay_out(const Config& config, uint16_t* first, size_t capacity, size_t row, Cache* cache);

struct Pass {
  const int64_t* parents;  // [tokens]
  size_t tokens, length;   // length: resident tokens
  size_t first = 0;        // tokens before this one are in the cache already: only their paths count
  const float* sinks = nullptr;  // [heads]: logits that take part as those of keys do, with values of zero; null: none
  size_t base = 0;                // the row of slot 0; of the first `lent` slots it is lent_base
  size_t lent = 0, lent_base = 0;

  size_t computed() const { return tokens - first; }
};

// Tokens [m0, m1): qkv[*, qkv_heads() * dim] and rotary[*, dim] (cosines, then sines) in; rotated and scaled
// queries [*, heads * dim] and cache slots length + m out. q_norm and k_norm [dim] may be null.
using PrepareFn = void (*)(const Config& config, const Cache& cache, size_t length, const float* qkv,
                           const float* rotary, const float* q_norm, const float* k_norm, float* queries, size_t m0,
                           size_t m1);

// Index i of a path is slot i while i < length, then slot length + chain[i - length].
struct Path {
  size_t first, end;     // indices that take part: [first, end)
  const int32_t* chain;  // ancestors within the pass and the token itself, ascending
  size_t length;         // resident tokens
  size_t base = 0, lent = 0, lent_base = 0;  // see Pass
};

constexpr size_t kMostQueries = 48;  // query vectors that share a block's keys: with fewer, each block reads and turns keys again

// Query vectors that read the same keys: `tokens` tokens from m0 on, times query heads [h0, h1) of one kv head.
struct Block {
  size_t m0, tokens, h0, h1;  // m0: counted from the first computed token
  size_t common_first, common_end;  // path indices that all tokens share; empty when first >= end
  Path paths[kMostQueries];         // of the tokens
  float* scores;                    // [tokens * heads][stride]: of a token's path from its first index on
  float* sums;                      // [tokens * heads]
  const float* sinks;               // [heads], or null
  size_t stride;
  const byte_products::Row* bytes;

  size_t heads() const { return h1 - h0; }
  size_t queries() const { return tokens * heads(); }
};

// The three steps of attention. Each needs the whole step before it, and may be split by its range. Any alignment
// works; with queries, out and scores aligned to 64 bytes a long pass takes about a quarter less time. Scores of the
// path indices [i0, i1). All of the pass must have been prepared.
using ScoreFn = void (*)(const Config& config, const Cache& cache, const Block& block, const float* queries, size_t i0,
                         size_t i1);
// Turns the scores of queries [q0, q1) of the block into weights and stores their sums.
using WeighFn = void (*)(const Config& config, const Block& block, size_t q0, size_t q1);
// Elements [c0, c1) of the heads of out[*, heads * dim]; both are multiples of 16.
using GatherFn = void (*)(const Config& config, const Cache& cache, const Block& block, float* out, size_t c0, size_t c1);

// The three steps of a block at once.
using AttendFn = void (*)(const Config& config, const Cache& cache, const Block& block, const float* queries, float* out);

struct Row {
  const char* name;
  PrepareFn prepare;
  ScoreFn score;
  WeighFn weigh;
  GatherFn gather;
  AttendFn attend;
};

// The row of that name, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

// A row of floats, and the products of bytes that go with it.
struct Kernels {
  const Row* floats;
  const byte_products::Row* bytes;
};

// Those of a row of quantised ops, or of floats; each nullptr when this build has none.
Kernels find_kernels(const char* name);

// How a pass is split. A task is a block for the heads of one kv head.
struct Split {
  size_t tokens;         // of a block: 1, or as many as have at most kMostQueries heads per kv head
  size_t keys, columns;  // of a piece of a task that threads share: path indices, and elements of a head (a multiple of
                         // 16). keys = 0: they share none
};

// Passes of several sequences, whose tokens follow each other, and whose first slots are the same as far as they are lent:
// blocks have tokens of several. One pass of its own may have any first slots.
struct Passes {
  const Pass* all;
  size_t count;

  size_t computed() const;
};

// The split for passes: threads share tasks when there are few and each is long. Results do not depend on it.
Split split_for(const Config& config, const Passes& passes);

// Attention weights by slot: the weight of slot s for kv head h at [h * stride + s], for all s in [0, length + tokens).
// It is 0 where no token sees the slot; queries with NaN weights do not count.
struct Looked {
  float* weights;  // null: not requested
  size_t stride;
};

// Attention of prepared passes: out[computed tokens, heads * dim], of queries in the same order. When weights by slot are
// requested (not for rings), a thread takes all blocks of a kv head, since they all write the same weights.
void attend(const Kernels& kernels, Parallel& threads, const Config& config, const Cache& cache, const Passes& passes,
            const float* queries, float* out, const Split& split, const Looked& looked);

// The error in the arguments, in one line, or nullptr. capacity: rows of the cache. A ring must hold the pass and the
// window - 1 slots before it; otherwise the pass would overwrite slots that its tokens see.
const char* problem(const Config& config, const Pass& pass, size_t capacity);

}  // namespace edgedec::tree_attention
