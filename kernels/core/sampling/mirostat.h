// Mirostat's state, the most bits of surprise that the next token may have (mirostat 2, Basu et al.
// 2021). It begins at twice the target and moves with each committed token: a function of the tokens before it and of the
// model's answers to them, however these came about.
#pragma once

#include "core/sampling/draw.h"

namespace edgedec::engine {

// Finds the bound after `token`, which `draw` drew with these arguments. Only for settings with mirostat.
Status bound_after(const HeadView& rows, size_t row, const DrawParams& params, int32_t token, const DrawHistory& history,
                   Allowed* allowed, DrawScratch* scratch, double* bound);

}  // namespace edgedec::engine
