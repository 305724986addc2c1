// Weights that are mapped, as this process's own memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/os/process.h"
#include "core/base/status.h"

namespace edgedec::engine {

int64_t bytes_of(const std::vector<os::Mapping>& spans);

// Makes what is mapped of the file at `path` this process's own memory, but for the first `table_bytes` of it. Mappings of
// `before` belong to other models, which may end at any time.
//
// The system could drop pages of the file in the middle of a pass, where slots of experts take what memory there is, and a file
// that vanishes would take them along. A table of embeddings stays as it is: of it a token needs one row. Nothing happens
// where the system does not say what is mapped.
//
// `uncached`: memory is short, so the system's cache needs no copy of them. kBackend where the file cannot be read.
Status make_own(const std::string& path, const std::vector<os::Mapping>& before, uint64_t table_bytes, bool uncached);

}  // namespace edgedec::engine
