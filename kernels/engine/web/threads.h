// Threads of a browser that help with passes.
#pragma once

#include <memory>

#include "common/parallel.h"

namespace edgedec::engine {

// The caller's thread, and those that help. They may come later.
std::unique_ptr<Parallel> page_threads();

// Makes the calling thread a helper, for as long as the module lives. Returns at once in a module without shared memory.
void help_on_page();

}  // namespace edgedec::engine
