// Drawing one token from one head row: edgedec/sampling/draw.py.
//
// The k best logits decide whenever that is provably enough, and otherwise the whole row. Both ways give the same token.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"
#include "core/sampling/candidates.h"
#include "core/sampling/history.h"

namespace edgedec::engine {

// Draws the token for absolute position `position` from the head results at index `row` of `rows`. `params` have passed
// check_params. Fails when logits are not numbers or were needed and are not there, or the logit bias leaves no token.
Status draw(const HeadRows& rows, size_t row, const DrawParams& params, int64_t position, const DrawHistory& history,
            DrawScratch* scratch, int32_t* token);

// The same with lists made anew.
Status draw(const HeadRows& rows, size_t row, const DrawParams& params, int64_t position, const DrawHistory& history,
            int32_t* token);

// Puts the tokens that survive every warper into `left`; whether that could be told. Not for settings that cut nothing.
bool survivors(Row& row, const DrawParams& params, DrawScratch* scratch, Candidates* left);

}  // namespace edgedec::engine
