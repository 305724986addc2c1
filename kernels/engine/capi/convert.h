// Values of the C API as those of the engine, and back.
#pragma once

#include "core/base/status.h"
#include "core/params.h"
#include "engine/edgedec.h"

namespace edgedec::engine {

// The sampler's settings, checked.
Status params_of(const edgedec_sampling& sampling, DrawParams* params);
// Without seed and logit bias.
void write_params(const DrawParams& params, edgedec_sampling* sampling);

// Fills `out`, which may be null, and returns its code.
edgedec_code told(const Status& status, edgedec_status* out);

}  // namespace edgedec::engine
