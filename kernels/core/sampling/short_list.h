// Drawing from the head's list, number by number: mostly it suffices, and few of its tokens survive.
#pragma once

#include <cstdint>

#include "core/sampling/candidates.h"

namespace edgedec::engine {

// Finds the token for `position`, for settings that leave part of the vocabulary out or are greedy; whether the head's
// list was long enough to tell.
bool draw_from_list(Row& row, const DrawParams& params, int64_t position, DrawScratch* scratch, int32_t* token);

}  // namespace edgedec::engine
