// The end of HeadTopK for a device that computed the block sums, the k largest logits and their two-term logits.
#pragma once

#include <cstdint>

#include "common/capi.h"

// Status: 0 done, 1 the row cannot run here, 2 bad argument. name: a row of the quantised ops. count: entries of the
// vocabulary that took part, of `rows`. sums[r][blocks of 1,024 entries][3], candidates[r][k][2] the best first, and
// fine[r][k] or null are what the device found. logits[r][rows] or null: all logits, whose refined ones are replaced.
EDGEDEC_EXPORT int edgedec_head_finish(const char* name, const float* sums, const uint32_t* candidates,
                                       const float* fine, int r, int rows, int count, int k, float softcap,
                                       float temperature, float* values, int32_t* ids, float* logsumexp, float* entropy,
                                       float* logits);
