// SegmentAttention: attention of whole texts, which lie behind each other in one pass, without a cache that stays.
//
// Token m of a text [first, end) sees the tokens [max(first, m - before), min(end, m + after + 1)) of it. The steps are
// those of tree_attention.h, with these tokens as the path; keys and values are rounded to fp16 as in a cache. So an
// output depends on its own text only: not on other texts of the pass.
#pragma once

#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {

struct Texts {
  const int64_t* offsets;  // [count + 1], ascending, from 0 to the number of tokens
  size_t count;
  size_t before, after;    // tokens that a token sees before and behind itself, at most

  size_t tokens() const { return static_cast<size_t>(offsets[count]); }
};

// All tokens have been prepared into slots 0, 1, ... of `cache`, which lay_out() made for fp16. config.window is 0.
void attend_texts(const Row& row, Parallel& threads, const Config& config, const Cache& cache, const Texts& texts,
                  const float* queries, float* out);

}  // namespace edgedec::tree_attention
