// The temperature of one draw, and what it depends on: the model's own distribution, at temperature 1.
#pragma once

#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"

namespace edgedec::engine {

// The entropy in nats at temperature 1, over the whole vocabulary. Fails where `rows` have neither a sum at temperature 1
// nor logits.
Status entropy_at_one(const HeadView& rows, size_t row, double* entropy);

// Logarithm of the sum of exp(logit) over the whole vocabulary. Fails as entropy_at_one does.
Status log_total_at_one(const HeadView& rows, size_t row, double* total);

// The temperature after a row: fixed, or with edt T * 0.8^(edt / H), for H the entropy in nats of the model's own
// distribution. Fails where `rows` do not have that.
Status temperature_of(const DrawParams& params, const HeadView& rows, size_t row, double* temperature);

}  // namespace edgedec::engine
