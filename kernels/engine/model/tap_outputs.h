// Further outputs of a graph, as bytes that are appended to its file: the outputs of layers as hidden states.
// edgedec/backends/onnx/tap_outputs.py.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/span.h"

namespace edgedec::engine {

// Appends the outputs f32[tokens, hidden] of those `layers` that the graph of `model` computes.
//
// Protobuf reads a message that comes twice as one, with the entries of both. So a graph gets outputs without being decoded.
void add_outputs(std::string* model, Span<const int> layers, int64_t hidden);

}  // namespace edgedec::engine
