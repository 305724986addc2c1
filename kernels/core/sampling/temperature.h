// The temperature of one draw: edgedec/sampling/temperature.py.
#pragma once

#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"

namespace edgedec::engine {

// The temperature after a row: fixed, or with edt T * 0.8^(edt / H), for H the entropy in nats of the model's own
// distribution. Fails where `rows` do not have that.
Status temperature_of(const DrawParams& params, const HeadRows& rows, size_t row, double* temperature);

}  // namespace edgedec::engine
