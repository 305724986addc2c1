// Graphs whose experts come from a store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace edgedec::experts {

// The ONNX model `model` with the experts of its ops taken from the store of this number, and not mapped. Experts that compute
// every token stay as they are, and so do those that are none: opening the graph says why. Empty for bytes that are no model.
std::string with_store(std::string_view model, int64_t store);

}  // namespace edgedec::experts
