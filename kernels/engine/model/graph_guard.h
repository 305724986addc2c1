// Checks of a bundle's graph before ONNX Runtime opens it.
//
// Its weights must lie in the bundle, whole. All ops of a graph without EdgeDec's kernels must be standard ones.
//
// ONNX Runtime checks much of this itself, each version another part of it, and a weight that is mapped from beyond the
// end of a file kills the process at its first use. Hashes do not make up for it: who writes a graph writes its hash, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/span.h"
#include "core/base/status.h"

namespace edgedec::engine {

constexpr size_t kMostGraphBytes = size_t{64} << 20;

// Checks the file `graph` of a bundle: every external tensor lies inside the file of weights, its bytes end before that
// file does, and they are as many as its type and shape take. kBadFile.
Status check_graph(const std::string& bundle, const char* graph);

// The same for a graph in memory, over `weights` bytes of weights. Null, or why it is broken.
//
// With `domain`, no op may be of another domain than ONNX's own: ONNX Runtime has ops that read files. Where one is, *domain
// is its domain, a part of `graph`.
const char* wrong_with_graph(Span<const uint8_t> graph, uint64_t weights, std::string_view* domain = nullptr);

}  // namespace edgedec::engine
