// Logits that weigh a text (context-aware decoding, Shi et al. 2024), of rows with the text and rows without it.
//
// With a and b the logits of an entry with and without the text, and `weight` w, the result is a + w (a - b). An entry that
// has less than a tenth of the probability of the row's best one with the text gains at most what that one gains: its a - b
// counts as the best one's where it is larger. So no entry that is implausible with the text comes nearer to the best one by
// it. Where what counts of a - b is not finite, the result is a.
//
// The rows' other results are those of HeadTopK over these logits (head_topk.h), with the same bits on every row of kernels.
#pragma once

#include <cstdint>

#include "common/capi.h"

// Status: 0 done, 1 the row cannot run here, 2 bad argument, 3 no memory. name: a row of the quantised ops. with[r][rows] are
// the logits with the text, and the result; without[r][rows] those without it. `temperature` is that of the sums.
EDGEDEC_EXPORT int edgedec_head_contrast(const char* name, float* with, const float* without, int r, int rows, int k,
                                         float weight, float temperature, float* values, int32_t* ids, float* logsumexp,
                                         float* entropy);
