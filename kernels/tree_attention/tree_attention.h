// TreeAttention: rotary attention over a key/value cache for T tokens that form a tree below the resident tokens.
//
// Token m has parent parents[m] in [-1, m): -1 hangs it on the last resident token. Its path is the resident slots
// 0 .. length - 1, then its ancestors, then itself; the index in the path is the position. Token m lives in cache
// slot length + m. Per token and head, with n = the keys that take part (with a window w, the last w of the path):
//
//   prepare  q, k   = head norm (RMSNorm of the head times weight; only where weights are given)
//            (a, b) -> (a cos - b sin, a sin + b cos)    plain operations on pairs (i, i + d/2),
//                                                        or (2i, 2i + 1) interleaved
//            q      = q * scale; k and v are rounded to fp16 into their slot
//   attend   s[j]   = <q, k[j]>                          sixteen lanes over d, fused, folded 16 -> 8 -> 4 -> 2 -> 1
//            s[j]   = softcap tanh(s[j] / softcap)        only with a softcap
//            p[j]   = exp(s[j] - max s)
//            sum    = sum of p                           lane j mod 16, j counted from the first key that takes part
//            out[i] = (sum over j of p[j] v[j][i]) / sum  ascending j, one fused multiply-add each, one division
//
// So an output depends on its path alone: not on slots, siblings, the number of tokens, blocks or threads, nor on the
// instruction set. Sources: Vaswani et al. (2017); Ainslie et al., "GQA" (2023); tree masks: Miao et al., "SpecInfer".
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::tree_attention {

struct Config {
  size_t heads, kv_heads;  // heads is a multiple of kv_heads; query head h reads kv head h / (heads / kv_heads)
  size_t dim;              // of a head; a multiple of 16
  float scale;
  size_t window;           // 0: none
  bool interleaved;
  float epsilon;           // of the head norms
  float softcap;           // 0: none
};

// fp16 keys and values of one layer: row `slot` of kv head h is at h * head_stride + slot * dim.
struct Cache {
  uint16_t *keys, *values;
  size_t head_stride;  // elements; capacity * dim in the cache [L, 2, Hkv, C, d]
};

struct Pass {
  const int64_t* parents;  // [tokens]
  size_t tokens, length;   // length: resident tokens
};

// Tokens [m0, m1): qkv[*, (heads + 2 kv_heads) * dim] and rotary[*, dim] (cosines, then sines) in; rotated and scaled
// queries [*, heads * dim] and cache slots length + m out. q_norm and k_norm [dim] may be null.
using PrepareFn = void (*)(const Config& config, const Cache& cache, size_t length, const float* qkv,
                           const float* rotary, const float* q_norm, const float* k_norm, float* queries, size_t m0,
                           size_t m1);

// Tokens [m0, m1) and query heads [h0, h1) of out[*, heads * dim]. All of the pass must have been prepared. scratch has
// scratch_floats(...) elements and belongs to the caller's worker for the length of the call. Any alignment is right;
// with queries, out and scratch on 64 bytes a long pass takes about a quarter less time.
using AttendFn = void (*)(const Config& config, const Cache& cache, const Pass& pass, const float* queries, float* out,
                          size_t m0, size_t m1, size_t h0, size_t h1, float* scratch);

struct Row {
  const char* name;
  PrepareFn prepare;
  AttendFn attend;
};

// The row of that name, or nullptr when this build has none. Whether the CPU can run it is cpu_has's to say.
const Row* find_row(const char* name);

// How many consecutive tokens attend() works on at a time: split a long pass into ranges of (a multiple of) this many
// tokens and the heads of one kv head. Results do not depend on the split.
size_t block_tokens(const Config& config, const Pass& pass);

// Floats between the score rows of two queries in the scratch: the most keys of a token, a multiple of 16.
size_t score_stride(const Config& config, const Pass& pass);

// Floats that attend() needs as scratch.
size_t scratch_floats(const Config& config, const Pass& pass);

// What is wrong with the arguments in one line, or nullptr. capacity: slots of the cache.
const char* problem(const Config& config, const Pass& pass, size_t capacity);

}  // namespace edgedec::tree_attention
