// The cores that this process may use, and their name: edgedec/telemetry/cores.py and machine.py.
#pragma once

#include <string>

#include "core/base/status.h"

namespace edgedec::engine {

// The logical cores that this process may use: its affinity, and at most its CPU quota.
int usable_cores();

// The usable cores; hyperthreads, which share bandwidth, count once. Where cores differ, as on phones, only the fast ones:
// a pass takes as long as its slowest thread.
int physical_cores();

// Fails for more threads than usable cores: they would wait for each other in every pass.
Status check_threads(int threads);

// The processor's name; "unknown" where the system does not tell.
std::string cpu_name();

}  // namespace edgedec::engine
