// Memory of this process, read from the operating system: edgedec/telemetry/process.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/mappings.h"

namespace edgedec::engine {

// Physical memory that this process holds now, mapped files included; 0 if unknown.
int64_t rss_bytes();
// The most physical memory that it has held; 0 if unknown.
int64_t peak_rss_bytes();
// The part of rss_bytes in pages of files called `name`; 0 if unknown.
int64_t mapped_rss_bytes(std::string_view name);
// Where the file at `path` is mapped, without its path; nothing if unknown.
std::vector<Mapping> mapped_spans(const std::string& path);
int64_t bytes_of(const std::vector<Mapping>& spans);
// Bytes of the pages into which the file at `path` is mapped; 0 if unknown. More than its size if it is mapped in pieces.
int64_t mapped_bytes(const std::string& path);
// Memory that new work may take without swapping; -1 if unknown. A control group, as of a container, may leave less than the
// machine has.
int64_t available_bytes();

}  // namespace edgedec::engine
