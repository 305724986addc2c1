// The cores that this process may use: edgedec/system/cores.py.
#pragma once

#include "core/base/status.h"

namespace edgedec::engine {

// Fails for more threads than usable cores: they would wait for each other in every pass.
Status check_threads(int threads);

}  // namespace edgedec::engine
