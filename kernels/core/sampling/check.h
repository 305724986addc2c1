// The check of a sampler's settings.
#pragma once

#include "core/base/status.h"
#include "core/params.h"

namespace edgedec::engine {

// Refuses a value outside its range, and sorts the logit bias by id.
Status check_params(DrawParams* params);

}  // namespace edgedec::engine
