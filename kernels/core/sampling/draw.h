// Drawing one token from one head row.
//
// The k best logits decide whenever that is provably enough, and otherwise the whole row. Both ways give the same token.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"
#include "core/sampling/allowed.h"
#include "core/sampling/candidates.h"
#include "core/sampling/history.h"

namespace edgedec::engine {

// Draws the token for absolute position `position` from the head results at index `row` of `rows`. `params` have passed
// check_params. With `allowed` it is one that may come next: all others leave before the warpers. Fails when logits are not
// numbers or were needed and are not there, or when logit bias and grammar leave no token.
Status draw(const HeadView& rows, size_t row, const DrawParams& params, int64_t position, const DrawHistory& history,
            Allowed* allowed, DrawScratch* scratch, int32_t* token);

// Puts the tokens that survive every warper into `left`; whether that could be told. Not for settings that cut nothing.
bool survivors(Row& row, const DrawParams& params, DrawScratch* scratch, Candidates* left);

}  // namespace edgedec::engine
