// The inputs and outputs of an ONNX Runtime session, by their names.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

// The names of a session's inputs, outputs or constants that a caller may replace, and the shapes of the first two.
class Ports {
 public:
  using Count = ort::Api::SessionGetInputCount_fn;
  using Name = ort::Api::SessionGetInputName_fn;
  using Type = ort::Api::SessionGetInputTypeInfo_fn;

  struct Port {
    std::string name;
    std::vector<int64_t> dims;  // -1: not a number
    std::string last;           // name of the last dimension, where it has one
  };

  // `type`: null for constants, which have no shapes here.
  Status read(const Runtime& runtime, const OrtSession* session, Count count, Name name, Type type);
  Status read_inputs(const Runtime& runtime, const OrtSession* session);
  Status read_outputs(const Runtime& runtime, const OrtSession* session);

  const Port* find(const char* name) const {
    for (const Port& port : all)
      if (port.name == name) return &port;
    return nullptr;
  }

  std::vector<Port> all;

 private:
  Status read_shape(const Runtime& runtime, const OrtSession* session, size_t at, Type type);
};

// Whether a tensor of two dimensions has so many columns.
inline bool has_columns(const Ports::Port* port, int64_t columns) {
  return port && port->dims.size() == 2 && port->dims[1] == columns;
}

}  // namespace edgedec::engine
