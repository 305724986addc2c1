// Puts regions into a graph when it is opened: each run of EdgeDec's ops becomes one node (ort/region.cc).
//
// The file keeps its ops, for every other reader: GPUs, NPUs, browsers, runtimes without these kernels.
#pragma once

#include <string>
#include <string_view>

namespace edgedec::ort {

// A ModelProto with regions for so many threads. Empty where there is no run of ops, or where `model` cannot be read: ONNX
// Runtime says then what is wrong with it.
std::string with_regions(std::string_view model, int threads);

}  // namespace edgedec::ort
