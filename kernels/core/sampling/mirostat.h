// Mirostat's state, the most bits of surprise that the next token may have: edgedec/sampling/mirostat.py.
#pragma once

#include "core/sampling/draw.h"

namespace edgedec::engine {

// Finds the bound after `token`, which `draw` drew with these arguments. Only for settings with mirostat.
Status bound_after(const HeadRows& rows, size_t row, const DrawParams& params, int32_t token, const DrawHistory& history,
                   DrawScratch* scratch, double* bound);

}  // namespace edgedec::engine
